"""Benchmark items in documents: found however they are wrapped, written or embedded, and taken out by name.

document ──scan──▶ terms ──windows of 5 words, 8 characters──▶ in the table? ──no──▶ clean: that was all
                                                                  │ yes
item     ──terms──▶ windows, without those that are common  ──▶ place in the document, near enough together
                                                                  │
          Mark was unwell for 3 months, during which …  ◀──beside──▶  <p>MARK was unwell for 3 months,</p> …
          score: the share of the item found there; kind: verbatim, edited, reordered, fragment, renumbered

Terms are what is left of a text when its look is taken away: words in small letters without accents, characters of
scripts without blanks one by one, numbers that all look the same. Marks, markup and line breaks are nothing.
"""

from __future__ import annotations

import bisect
import difflib
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from prep_lib import corpus, seeds
from prep_lib.errors import BadParameter, unknown
from prep_lib.jit import kernel
from prep_lib.record import Cut, Document, Drop
from prep_lib.text.benchmarks import Benchmarks, Item, load_benchmarks
from prep_lib.text.word import script_table

# ── terms ────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: What a character is: between terms, of a word, of a number, a term by itself, nothing at all.
BETWEEN, LETTER, DIGIT, ALONE, NOTHING = range(5)

#: Common characters of traditional Chinese and what they are in simplified; characters that stay, and the rare ones,
#: are not in here. Where one traditional character has two simplified ones (乾, 著), it is left out.
_TRADITIONAL = (
    "萬與專業東絲兩嚴喪個豐臨為麗舉義烏樂喬習鄉書買亂爭虧雲亞產畝親褻億僅從侖倉儀們價眾優會傘偉傳傷倫偽體餘傭俠侶僥偵"
    "側僑儈債傾償儻儼兒黨蘭關興養獸內岡冊寫軍農馮沖決況凍淨淒涼減湊凜鳳憑凱擊鑿劃劉則剛創刪別劑劍劇勸辦務動勵勁勞勢勳"
    "匯區醫華協單賣盧衛卻廠廳歷厲壓厭廁廂廈廚縣參雙發變敘葉號嘆嚇嗎呂吳員聽啟問喚響啞嘩噸噴嘗囑園圍國圖圓聖場壞塊堅壇"
    "壩墳墜壟墊墾壯聲殼壺處備複夠頭誇夾奪奮獎妝婦媽嫵娛嬌孫學寧寶實寵審憲宮寬賓對尋導將爾塵堯屍層屆屬歲豈島嶺峽崗嶄巒"
    "幣帥師帳簾幟帶幫慶廣莊廬庫應廟龐廢開異棄張彌彎彈強歸當錄徹徑禦憶懺憂懷態慫憐總戀懇惡惱悅懸驚懼慘懲憊慣憤願戲戰戶"
    "撲執擴掃揚擾撫拋搶護報擔擬攏揀擁攔擰撥擇掛摯揮撓擋擠撈損撿換搗據擄摑擲撐擺攜攝攤敵斂數齋鬥斬斷無舊時曠曇晝顯晉曬"
    "曉暈暉暫術樸機殺雜權條來楊傑極構樞棗槍楓櫃檸標棧棟欄樹棲樣橋檔橫檯檢歡歐殲殘殯毆毀轂畢斃氣氫漢湯洶溝沒灃淚滬瀉潑"
    "澤潔灑淺漿澆濁測濟渾濃濤澇渦潤漲澀淵漁滲溫灣濕潰濺滾滯滿濾濫濱灘瀟灝滅燈靈災爐爛點煉熾爍煩燒燭燙熱愛爺牆牘牽犧狀"
    "猶獨狹獅獄獵貓獻璣環現瑪瓊瑤瓏甕電畫暢疇療瘋瘡癢癱癮癲皺盞鹽監蓋盜盤瞞矚礦碼磚礎碩確礙禮禱禍禪離禿種積稱穢穩窮竊"
    "竅窯竄窩窺豎競筆筍箋籠築篩簡籌簽籃籬類糧糞緊糾紅紂約級紀紉純紗綱納縱紛紙紋紡紐線練組細織終絆紹經綁結繞繪給絡絕絞"
    "統絹繡繼績緒續繩維綿綴綠綢綜綻緩締編緣縛縫纏繳縮縷網羅罰罷羈翹聳恥聾職聯聰肅腸膚腎腫脹脅膽勝膠脈髒臟腦膿腳脫臉臘"
    "膩艦艙艱艷藝節蘆蘇蘋莖薦薈蕩榮葷螢蔭藥萊蓮獲瑩營蕭薩蔣藍薊薔藹蘊虛蟲雖蝦蝕蟻螞蠶蠻補襯襖襪襲裝褲見觀規覓視覽覺觸"
    "譽計訂認譏討讓訓議訊記講諱訝許論訟諷設訪訣證評詛識詐訴診詞譯試詩詢詭該詳誡誣語誤誘誨說誦請諸諾讀課誰調諒談誼謀謊"
    "諧謂諺謎謝謠謙謹謬譚譜貝貞負貢財責賢敗貨質販貪貧貶購貯貫賤貼貴貸貿費賀賊賄賃資賭賞賜賠賴贅賺賽贈贊贏趙趕趨躍踐蹤"
    "車軌軒轉輪軟轟軸輕載較輔輛輝輩輯輸轄轍辭辯辮邊遼達遷過邁運還這進遠違連遲適選遜遞邏遺遙鄧鄭鄰醬釀釋針釘鈔鈣鈉鋼鑰"
    "欽鉤鈴鐵鉛鉗銀銅鋁銘鋪銷鎖鋤鍋鏽鋒銳錯錢錫鑼錘錦鍵鋸鍛鍍鎮鏡鐘鐮長門閃閉闖閒間悶閘鬧閣閥閱闊闢隊陽陰陣階際陸陳陝"
    "隕險隨隱難雛霧靜頂項順須頑顧頓頒預領頗頰頻題額顏顛顫風飄飛飢飯飲飾飽飼餅餓館饋饑饒馬馭馱馴馳驅駁駐駕駛駱駿騎騙騰"
    "騷驗驟髮鬢魚魯鮮鯉鯨鳥鳴鴉鴨鴿鴻鵝鵬鷹麥黃齊齒齡龍龜麼後裡裏準絃佈併採幾製係範於衝隻臺幹麵遊週歎徵繫捨彙嚮鬱籤穀"
)
_SIMPLIFIED = (
    "万与专业东丝两严丧个丰临为丽举义乌乐乔习乡书买乱争亏云亚产亩亲亵亿仅从仑仓仪们价众优会伞伟传伤伦伪体余佣侠侣侥侦"
    "侧侨侩债倾偿傥俨儿党兰关兴养兽内冈册写军农冯冲决况冻净凄凉减凑凛凤凭凯击凿划刘则刚创删别剂剑剧劝办务动励劲劳势勋"
    "汇区医华协单卖卢卫却厂厅历厉压厌厕厢厦厨县参双发变叙叶号叹吓吗吕吴员听启问唤响哑哗吨喷尝嘱园围国图圆圣场坏块坚坛"
    "坝坟坠垄垫垦壮声壳壶处备复够头夸夹夺奋奖妆妇妈妩娱娇孙学宁宝实宠审宪宫宽宾对寻导将尔尘尧尸层届属岁岂岛岭峡岗崭峦"
    "币帅师帐帘帜带帮庆广庄庐库应庙庞废开异弃张弥弯弹强归当录彻径御忆忏忧怀态怂怜总恋恳恶恼悦悬惊惧惨惩惫惯愤愿戏战户"
    "扑执扩扫扬扰抚抛抢护报担拟拢拣拥拦拧拨择挂挚挥挠挡挤捞损捡换捣据掳掴掷撑摆携摄摊敌敛数斋斗斩断无旧时旷昙昼显晋晒"
    "晓晕晖暂术朴机杀杂权条来杨杰极构枢枣枪枫柜柠标栈栋栏树栖样桥档横台检欢欧歼残殡殴毁毂毕毙气氢汉汤汹沟没沣泪沪泻泼"
    "泽洁洒浅浆浇浊测济浑浓涛涝涡润涨涩渊渔渗温湾湿溃溅滚滞满滤滥滨滩潇灏灭灯灵灾炉烂点炼炽烁烦烧烛烫热爱爷墙牍牵牺状"
    "犹独狭狮狱猎猫献玑环现玛琼瑶珑瓮电画畅畴疗疯疮痒瘫瘾癫皱盏盐监盖盗盘瞒瞩矿码砖础硕确碍礼祷祸禅离秃种积称秽稳穷窃"
    "窍窑窜窝窥竖竞笔笋笺笼筑筛简筹签篮篱类粮粪紧纠红纣约级纪纫纯纱纲纳纵纷纸纹纺纽线练组细织终绊绍经绑结绕绘给络绝绞"
    "统绢绣继绩绪续绳维绵缀绿绸综绽缓缔编缘缚缝缠缴缩缕网罗罚罢羁翘耸耻聋职联聪肃肠肤肾肿胀胁胆胜胶脉脏脏脑脓脚脱脸腊"
    "腻舰舱艰艳艺节芦苏苹茎荐荟荡荣荤萤荫药莱莲获莹营萧萨蒋蓝蓟蔷蔼蕴虚虫虽虾蚀蚁蚂蚕蛮补衬袄袜袭装裤见观规觅视览觉触"
    "誉计订认讥讨让训议讯记讲讳讶许论讼讽设访诀证评诅识诈诉诊词译试诗询诡该详诫诬语误诱诲说诵请诸诺读课谁调谅谈谊谋谎"
    "谐谓谚谜谢谣谦谨谬谭谱贝贞负贡财责贤败货质贩贪贫贬购贮贯贱贴贵贷贸费贺贼贿赁资赌赏赐赔赖赘赚赛赠赞赢赵赶趋跃践踪"
    "车轨轩转轮软轰轴轻载较辅辆辉辈辑输辖辙辞辩辫边辽达迁过迈运还这进远违连迟适选逊递逻遗遥邓郑邻酱酿释针钉钞钙钠钢钥"
    "钦钩铃铁铅钳银铜铝铭铺销锁锄锅锈锋锐错钱锡锣锤锦键锯锻镀镇镜钟镰长门闪闭闯闲间闷闸闹阁阀阅阔辟队阳阴阵阶际陆陈陕"
    "陨险随隐难雏雾静顶项顺须顽顾顿颁预领颇颊频题额颜颠颤风飘飞饥饭饮饰饱饲饼饿馆馈饥饶马驭驮驯驰驱驳驻驾驶骆骏骑骗腾"
    "骚验骤发鬓鱼鲁鲜鲤鲸鸟鸣鸦鸭鸽鸿鹅鹏鹰麦黄齐齿龄龙龟么后里里准弦布并采几制系范于冲只台干面游周叹征系舍汇向郁签谷"
)

#: Characters up to here are looked up in a table; above it all Han characters are terms, and nothing else is.
_TABLE = 0x20000


@cache
def classes(chinese: str) -> np.ndarray:
    """Return what each character is and what it counts as.

    Parameters
    ----------
    chinese : str
        ``simplified``: traditional characters count as the simplified ones; ``as_written``: as they are.

    Returns
    -------
    (131072,) uint32
        By code point: the character it counts as, times 16, plus 8 for a capital, plus `BETWEEN` … `NOTHING`.
    """
    alone = script_table() & 192
    kinds, folds = np.zeros(_TABLE, np.uint32), np.zeros(_TABLE, np.uint32)
    for point in range(_TABLE):
        kinds[point], folds[point] = _class_of(chr(point), point < 65536 and alone[point] == 128)
        kinds[point] |= 8 * (unicodedata.category(chr(point)) == "Lu")
    if chinese == "simplified":
        folds[[ord(char) for char in _TRADITIONAL]] = [ord(char) for char in _SIMPLIFIED]
    return folds << 4 | kinds


def _class_of(char: str, alone: bool) -> tuple[int, int]:
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf") or char == "\xad":
        return NOTHING, 0
    plain = unicodedata.normalize("NFKC", char)
    # é is e, and が is か: the accent is taken away, as is that of e followed by an accent.
    base = [one for one in unicodedata.normalize("NFKD", char.lower()) if unicodedata.category(one)[0] != "M"]
    if not base and category[0] == "L":
        return NOTHING, 0
    if alone and category[0] == "L":
        # Hangul is taken apart into letters by NFKD; scan puts them together.
        return ALONE, ord(base[0]) if len(base) == 1 else ord(plain) if len(plain) == 1 else ord(char)
    small = base[0].lower() if len(base) == 1 else char.lower()
    fold = ord(small) if len(small) == 1 else ord(char)
    if category[0] == "L":
        return LETTER, fold
    if category == "Nd" or (category == "No" and len(plain) == 1 and plain.isdecimal()):
        return DIGIT, 48 + unicodedata.decimal(plain, 0)
    return BETWEEN, fold


#: Numbers of a kernel: to mypy a number of numpy is no int.
u64: Any = np.uint64
i64: Any = np.int64
_SEED, _PRIME, _SPREAD = u64(0x243F6A8885A308D3), u64(0x9E3779B97F4A7C15), u64(0xD6E8FEB86659FD93)
_BASE, _SALT = u64(0x2545F4914F6CDD1D), u64(0x5851F42D4C957F2D)
#: What every number counts as.
_NUMBER = u64(0x13198A2E03707344)
#: Terms of a window that ends in a word, and in a character of a script without blanks; powers of the base for them.
WORDS, CHARACTERS = 5, 8
_BASE_WORDS, _BASE_CHARACTERS = (u64(pow(int(_BASE), n, 2**64)) for n in (WORDS, CHARACTERS))
_U32, _U29, _U6, _U63 = u64(32), u64(29), u64(6), u64(63)
_ZERO, _ONE = u64(0), u64(1)
_COMMA = u64(ord(","))


@kernel
def scan(data: Any, codes: Any, bits: Any, shift: int, slots: Any, hits: Any, out: Any) -> tuple[int, int]:
    """Cut UTF-8 into terms and look up every window of them.

    Parameters
    ----------
    data : (n,) uint8
    codes : (131072,) uint32
        From `classes`.
    bits : (b,) uint64
        A filter in front of the table: a bit for each key, found by its top bits.
    shift : int
        64 less the binary logarithm of the number of bits.
    slots : (s,) uint64
        An open-address table of keys, s a power of two, 0 for free; of length 0: nothing is looked up.
    hits : (h, 2) int64
        Written: for each window that is in the table the number of its last term, times 2**32, plus its slot; and where
        it ends, in bytes.
    out : (t, 3) uint64
        Written: for each term where it begins, in bytes, times 8, plus its kind; where it ends; what it is. Of length
        0: not asked for.

    Returns
    -------
    (int, int)
        Terms, and windows found; what did not fit into the arrays is counted all the same.
    """
    size, room, keep, look, mask = len(data), len(hits), len(out), len(slots) > 0, len(slots) - 1
    down = u64(shift)
    ring = np.zeros(8, np.uint64)
    words, characters = _ZERO, _ZERO
    terms, found, i, start, state, run, small = 0, 0, 0, 0, 0, _ZERO, False
    rolling = False
    while True:
        kind, fold, wide, capital = i64(0), _ZERO, 1, False
        if i < size:
            # Unsigned places spare a look whether they are negative.
            byte = data[u64(i)]
            if byte < 128:
                code = i64(codes[byte])
                kind, fold, capital = code & 7, u64(code >> 4), code & 8 != 0
            else:
                if 224 <= byte < 240 and i + 2 < size:
                    # Most of what is not ASCII.
                    wide, point = 3, i64(byte & 15) << 12 | i64(data[u64(i + 1)] & 63) << 6 | i64(data[u64(i + 2)] & 63)
                else:
                    if byte < 224:
                        wide, point = 2, byte & 31
                    elif byte < 240:
                        wide, point = 3, byte & 15
                    else:
                        wide, point = 4, byte & 7
                    point = i64(point)
                    for k in range(1, wide):
                        if i + k < size:
                            point = (point << 6) | i64(data[i + k] & 63)
                if 0x1100 <= point < 0x1113 and i + 5 < size and data[i + 3] == 225:
                    # Hangul written letter by letter, two or three to a syllable.
                    vowel = (i64(data[i + 4] & 63) << 6 | i64(data[i + 5] & 63)) - 0x161
                    if 0 <= vowel < 21:
                        point, wide = 0xAC00 + ((point - 0x1100) * 21 + vowel) * 28, 6
                        if i + 8 < size and data[i + 6] == 225:
                            last = (i64(data[i + 7] & 63) << 6 | i64(data[i + 8] & 63)) - 0x1A7
                            if 0 < last < 28:
                                point, wide = point + last, 9
                if point < 0x20000:
                    code = i64(codes[u64(point)])
                    kind, fold, capital = code & 7, u64(code >> 4), code & 8 != 0
                elif point < 0x40000:
                    kind, fold = 3, u64(point)
        if state != 0:
            # camelCase is two words, as camel_case is; SHOUTED and Titled are one.
            if kind == state and not (capital and small):
                run = (run ^ fold) * _PRIME
                i += wide
                small = kind == 1 and not capital
                continue
            if kind == 4:
                i += wide
                continue
            if state == 2 and fold == _COMMA and kind == 0:
                # 1,000,000 is one number, as 1000000 is: three digits behind a comma, and no fourth.
                k, digits = i + wide, 0
                while k < size and digits < 4:
                    if 48 <= data[k] <= 57:
                        k += 1
                    elif data[k] == 239 and k + 2 < size and data[k + 1] == 188 and 144 <= data[k + 2] <= 153:
                        k += 3
                    else:
                        break
                    digits += 1
                if digits == 3:
                    i += wide
                    continue
            sort = state
            if state == 2:
                run = _NUMBER
            state = 0
        else:
            if i >= size:
                break
            if kind == 1 or kind == 2:
                state, start, run = kind, i, (_SEED ^ fold) * _PRIME
                i += wide
                small = kind == 1 and not capital
                # Most of most texts: small letters, or digits, that are one byte each, and then a blank or a mark.
                ended = False
                while i < size and data[u64(i)] < 128:
                    code = i64(codes[data[u64(i)]])
                    if code & 15 != state:
                        ended = state == 1 and code & 7 == 0
                        break
                    run = (run ^ u64(code >> 4)) * _PRIME
                    small = state == 1
                    i += 1
                if not ended:
                    continue
                sort, state = 1, 0
            elif kind != 3:
                if data[i] == 60 and i + 2 < size:
                    # <p>, </div>, <a href=…>: a name, and then the end or a value.
                    k = i + 2 if data[i + 1] == 47 else i + 1
                    if 97 <= (data[k] | 32) <= 122:
                        while k < size and (97 <= (data[k] | 32) <= 122 or 48 <= data[k] <= 57):
                            k += 1
                        end, named = min(size, i + 400), k
                        # What stands behind the name: nothing, a slash, or the first attribute with its value.
                        while k < end and data[k] == 32:
                            k += 1
                        attribute = k
                        while k < end and (97 <= (data[k] | 32) <= 122 or data[k] == 45 or data[k] == 58):
                            k += 1
                        whole = k == attribute and (data[k] == 62 or data[k] == 47) if k < end else False
                        valued = named < attribute < k and k + 1 < end and data[k] == 61 and data[k + 1] > 32
                        while k < end and data[k] != 62 and data[k] != 60 and data[k] >= 32:
                            k += 1
                        if k < end and data[k] == 62 and (valued or (whole and k <= attribute + 1)):
                            i = k + 1
                            continue
                elif data[i] == 38:
                    # &nbsp; &#39;
                    k = i + 2 if i + 1 < size and data[i + 1] == 35 else i + 1
                    end = min(size, i + 10)
                    while k < end and (97 <= (data[k] | 32) <= 122 or 48 <= data[k] <= 57):
                        k += 1
                    if k < end and k > i + 1 and data[k] == 59:
                        i = k + 1
                        continue
                i += wide
                continue
            else:
                sort, start, run = 3, i, (_SEED ^ fold) * _PRIME
                i += wide
        run ^= run >> _U32
        run *= _SPREAD
        run ^= run >> _U29
        if terms < keep:
            out[terms, 0], out[terms, 1], out[terms, 2] = u64(start << 3 | sort), u64(i), run
        words = words * _BASE + run - ring[(terms - 5) & 7] * _BASE_WORDS
        if sort == 3 and rolling:
            characters = characters * _BASE + run - ring[terms & 7] * _BASE_CHARACTERS
            ring[terms & 7] = run
        else:
            ring[terms & 7] = run
            rolling = sort == 3
            if rolling:
                # Text with blanks between words never asks for this.
                characters = _ZERO
                for k in range(terms + 1, terms + 9):
                    characters = characters * _BASE + ring[k & 7]
        if look and terms >= 4:
            key = characters ^ _SALT if sort == 3 else words
            key = (key ^ (key >> _U32)) * _SPREAD
            key |= _ONE
            place = key >> down
            if (bits[place >> _U6] >> (place & _U63)) & _ONE != _ZERO:
                slot = np.int64(key >> _U29) & mask
                while slots[slot] != _ZERO and slots[slot] != key:
                    slot = (slot + 1) & mask
                if slots[slot] == key:
                    if found < room:
                        hits[found, 0], hits[found, 1] = (terms << 32) | slot, i
                    found += 1
        terms += 1
        if i < size and data[i] == 32:
            i += 1
    return terms, found


class Terms(NamedTuple):
    """A text as terms.

    Parameters
    ----------
    starts, stops : (t,) int64, bytes
    hashes : (t,) uint64
        Equal for terms that count as the same.
    sorts : (t,) uint8
        `LETTER`, `DIGIT` or `ALONE`.
    """

    starts: np.ndarray
    stops: np.ndarray
    hashes: np.ndarray
    sorts: np.ndarray


_NO_TABLE = (np.zeros(1, np.uint64), 63, np.empty(0, np.uint64), np.empty((0, 2), np.int64))
_NO_TERMS = np.empty((0, 3), np.uint64)


def terms(utf8: bytes, chinese: str = "simplified") -> Terms:
    """Cut a text into terms.

    Parameters
    ----------
    utf8 : bytes
    chinese : str
        ``simplified`` or ``as_written``.

    Examples
    --------
    >>> text = "“It’s 3,650&nbsp;km”, <b>Ｓhe</b> said: 好的".encode()
    >>> found = terms(text)
    >>> [text[a:b].decode() for a, b in zip(found.starts, found.stops)]
    ['It', 's', '3,650', 'km', 'Ｓhe', 'said', '好', '的']
    """
    data, codes = np.frombuffer(utf8, np.uint8), classes(chinese)
    size, _ = scan(data, codes, *_NO_TABLE, _NO_TERMS)
    out = np.empty((size, 3), np.uint64)
    scan(data, codes, *_NO_TABLE, out)
    begins = out[:, 0].astype(np.int64)
    return Terms(begins >> 3, out[:, 1].astype(np.int64), out[:, 2].copy(), (begins & 7).astype(np.uint8))


def windows(hashes: np.ndarray, sorts: np.ndarray) -> np.ndarray:
    """Return the key of the window that ends at each term, as `scan` makes it.

    Parameters
    ----------
    hashes, sorts : (t,)
        Of `Terms`.

    Returns
    -------
    (t,) uint64
        0 where the text before the term is too short.
    """
    keys, width = _keys(hashes, sorts, WORDS, CHARACTERS)
    keys[np.arange(len(hashes)) < width - 1] = 0
    return keys


def _keys(hashes: np.ndarray, sorts: np.ndarray, words: int, characters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys of so many words, or characters, that end at each term, and how many terms that is."""
    sums = {}
    for width in (words, characters):
        out = np.zeros(len(hashes), np.uint64)
        for back in range(min(width, len(hashes))):
            out[back:] += hashes[: len(hashes) - back] * u64(pow(int(_BASE), back, 2**64))
        sums[width] = out
    keys = np.where(sorts == ALONE, sums[characters] ^ _SALT, sums[words])
    return ((keys ^ (keys >> _U32)) * _SPREAD) | _ONE, np.where(sorts == ALONE, characters, words)


# ── the items, ready to be looked up ─────────────────────────────────────────────────────────────────────────────────

#: Weights are in half words: a word, a character of a script without blanks, a number.
_WEIGHTS = np.array([0, 2, 0, 1, 0], np.int32)
#: Terms of a window that are no numbers, at least: [1, 2, 3] proves nothing.
_LEAST = {WORDS: 3, CHARACTERS: 6}
#: Terms of a gram, by which an item is compared where it may stand: words, characters.
_GRAM = (3, 5)


class Index(NamedTuple):
    """Items as arrays.

    Parameters
    ----------
    bits, shift, slots
        For `scan`.
    which : (s,) int32
        Key number of a slot; -1: free.
    first : (keys + 1,) int32; owners, places : (postings,) int32
        Of a key, the items that hold its window, and the place of its last term in each.
    begins : (items + 1,) int64
        Where the terms of an item begin; first its query, then, where that is weak, its support.
    hashes : (t,) uint64; sorts : (t,) uint8; weights : (t,) uint8, half words; parts : (t,) uint16
        Terms of all items. A term all of whose windows are common weighs nothing. Part 0 is the query.
    values : (t,) uint64
        What a number is; 0 for other terms.
    queries : (items,) int64
        Terms of the query.
    needs : (items,) int32
        Windows that must be found near each other before an item is looked at; 0: the item can never be told from
        chance.
    weak : (items,) bool
        The query alone proves nothing: too short, common, the wording of many, or about a passage.
    common : int
        Windows of items that do not count.
    """

    bits: np.ndarray
    shift: int
    slots: np.ndarray
    which: np.ndarray
    first: np.ndarray
    owners: np.ndarray
    places: np.ndarray
    begins: np.ndarray
    hashes: np.ndarray
    sorts: np.ndarray
    weights: np.ndarray
    parts: np.ndarray
    values: np.ndarray
    queries: np.ndarray
    needs: np.ndarray
    weak: np.ndarray
    common: int


class _Flat(NamedTuple):
    """All texts of all items one behind the other, as terms."""

    item: np.ndarray
    part: np.ndarray
    text: np.ndarray
    benchmark: np.ndarray
    hashes: np.ndarray
    sorts: np.ndarray
    values: np.ndarray


def build_index(
    items: Sequence[Item], *, chinese: str, shared: int, min_words: int, common: Iterable[int] = ()
) -> Index:
    """Make the table of all windows that count."""
    flat = _flat(items, chinese)
    keys, width = _own_windows(flat)
    stop = _shared_keys(keys, flat, shared) | {*common}
    counts = (keys != 0) & ~np.isin(keys, np.fromiter(stop, np.uint64, len(stop)))
    uncounted = len(np.unique(keys[(keys != 0) & ~counts]))
    weights = _weigh(flat, width, counts)
    wanting = _worded(flat, len(items), shared, 2 * min_words) | np.array([item.about_passage for item in items])
    weak, possible = _weak(flat, weights, counts, _asked_again(items), wanting, 2 * min_words)
    # Beside a query that proves enough, its answers are not looked at.
    kept = ~((flat.part > 0) & ~weak[flat.item])
    item, counts, keys = flat.item[kept], counts[kept], keys[kept]
    begins = np.searchsorted(item, np.arange(len(items) + 1)).astype(np.int64)
    places = np.arange(len(item)) - begins[item]
    counts &= possible[item]
    posted = np.bincount(item[counts], minlength=len(items))
    needs = np.where(weak, np.minimum(posted, 2), 1 + (posted > 6) + (0.15 * posted).astype(np.int64))
    order = np.argsort(keys[counts], kind="stable")
    unique, first = np.unique(keys[counts][order], return_index=True)
    return Index(
        *_table(unique), first=np.append(first, len(order)).astype(np.int32),
        owners=item[counts][order].astype(np.int32), places=places[counts][order].astype(np.int32), begins=begins,
        hashes=flat.hashes[kept], sorts=flat.sorts[kept], weights=weights[kept].astype(np.uint8),
        parts=flat.part[kept].astype(np.uint16),
        values=flat.values[kept], queries=np.bincount(item[flat.part[kept] == 0], minlength=len(items)),
        needs=np.where(possible & (posted > 0), needs, 0).astype(np.int32), weak=weak, common=uncounted,
    )  # fmt: skip


def _flat(items: Sequence[Item], chinese: str) -> _Flat:
    pieces = [
        (at, part, text) for at, item in enumerate(items) for part, text in enumerate((item.query, *item.support))
    ]
    names: dict[str, int] = {}
    benchmark = [names.setdefault(items[at].benchmark, len(names)) for at, _, _ in pieces]
    raw = [text.encode("utf-8", "replace") for _, _, text in pieces]
    utf8 = b"\0".join(raw)
    found = terms(utf8, chinese)
    edges = np.cumsum([0, *(len(one) + 1 for one in raw)])
    piece = np.searchsorted(edges, found.starts, "right") - 1
    # A passage that several questions share is one text, and so is a question that stands in a file five times.
    cuts = np.searchsorted(piece, np.arange(len(pieces) + 1)).tolist()
    spans = [slice(begin, end) for begin, end in itertools.pairwise(cuts)]
    texts: dict[tuple[int, bytes], int] = {}
    told = [(name, found.hashes[span].tobytes()) for name, span in zip(benchmark, spans, strict=True)]
    text_of = [texts.setdefault(one, len(texts)) for one in told]
    return _Flat(
        np.array([at for at, _, _ in pieces])[piece], np.array([part for _, part, _ in pieces], np.int32)[piece],
        np.array(text_of)[piece], np.array(benchmark)[piece], found.hashes, found.sorts, _values(utf8, found),
    )  # fmt: skip


def _values(utf8: bytes, found: Terms) -> np.ndarray:
    """Return what each number is, as a hash; 0 for other terms."""
    out = np.zeros(len(found.starts), np.uint64)
    for at in np.flatnonzero(found.sorts == DIGIT).tolist():
        out[at] = _value(utf8[found.starts[at] : found.stops[at]])
    return out


def _value(number: bytes) -> int:
    """Return what a number is: 007 is 7, ３ is 3, 1,000 is 1000."""
    text = unicodedata.normalize("NFKC", number.decode("utf-8", "replace"))
    digits = "".join(str(unicodedata.decimal(char)) for char in text if char.isdecimal())
    return seeds.key(0, "number", digits.lstrip("0")) | 1


def _own_windows(flat: _Flat) -> tuple[np.ndarray, np.ndarray]:
    """Return the key of each window that lies in one text and holds enough words, else 0; and its width."""
    keys, width = _keys(flat.hashes, flat.sorts, WORDS, CHARACTERS)
    return _in_one_text(flat, keys, width, np.where(flat.sorts == ALONE, _LEAST[CHARACTERS], _LEAST[WORDS])), width


def _in_one_text(flat: _Flat, keys: np.ndarray, width: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return the keys, 0 where one reaches into another text, or holds too few words, or one term over and over."""
    at = np.arange(len(keys))
    begin = np.maximum(at - width + 1, 0)
    told = np.cumsum(np.append(0, flat.sorts != DIGIT))
    enough = (at >= width - 1) & (told[at + 1] - told[begin] >= least)
    changes = np.cumsum(np.append(0, flat.hashes[1:] != flat.hashes[:-1]))[: len(at)]
    enough &= changes[at] > changes[begin]
    alone = (flat.item[begin] == flat.item) & (flat.part[begin] == flat.part)
    return np.where(enough & alone, keys, 0)


def _shared_keys(keys: np.ndarray, flat: _Flat, shared: int) -> set[int]:
    """Return windows that stand in `shared` or more different texts of one benchmark."""
    order = np.lexsort((flat.text, keys))
    order = order[keys[order] != 0]
    key, text, benchmark = keys[order], flat.text[order], flat.benchmark[order]
    # One row a key and text; texts of one benchmark stand together, as they were numbered.
    first = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (text[1:] != text[:-1])))[: len(key)]
    key, benchmark = key[first], benchmark[first]
    group = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (benchmark[1:] != benchmark[:-1])))[: len(key)]
    return {*key[group][np.diff(np.append(group, len(key))) >= shared].tolist()}


def _weigh(flat: _Flat, width: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return what each term weighs: nothing if no window it is in counts; in a text too short for any, as it is."""
    covered = _reached(width, counts)
    begins = np.flatnonzero(np.diff(flat.item, prepend=-1) | np.diff(flat.part, prepend=-1))
    sizes = np.diff(np.append(begins, len(counts)))
    short = np.repeat(sizes, sizes) < width
    return np.where(covered | short, _WEIGHTS[flat.sorts], 0).astype(np.int32)


def _reached(width: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Tell of each term whether it is in a window that counts; a window is named by its last term."""
    change, ends = np.zeros(len(counts) + 1, np.int64), np.flatnonzero(counts)
    np.add.at(change, ends - width[ends] + 1, 1)
    np.add.at(change, ends + 1, -1)
    return np.cumsum(change[:-1]) > 0


def _worded(flat: _Flat, size: int, shared: int, least: int) -> np.ndarray:
    """Tell of each item whether its query is the wording of its benchmark, and hardly anything else.

    The wording is what stands three words, or five characters, at a time in `shared` or more queries: "which of the
    following is closest to". What is left of the query must be half of it, or half of `least`.
    """
    keys, width = _keys(flat.hashes, flat.sorts, *_GRAM)
    keys = np.where(flat.part == 0, _in_one_text(flat, keys, width, width - 1), 0)
    stop = _shared_keys(keys, flat, shared)
    own = ~_reached(width, (keys != 0) & np.isin(keys, np.fromiter(stop, np.uint64, len(stop))))
    query, weights = flat.part == 0, _WEIGHTS[flat.sorts]
    whole = np.bincount(flat.item[query], weights[query], size)
    left = np.bincount(flat.item[query & own], weights[query & own], size)
    return (2 * left <= whole) & (2 * left < least)


def _asked_again(items: Sequence[Item]) -> np.ndarray:
    """Tell of each item whether its benchmark asks the same about something else too; blanks are no difference."""
    beside: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    asked = [(item.benchmark, "".join(item.query.split())) for item in items]
    for item, query in zip(items, asked, strict=True):
        beside.setdefault(query, set()).add(item.support)
    return np.array([len(beside[query]) > 1 for query in asked])


def _weak(
    flat: _Flat, weights: np.ndarray, counts: np.ndarray, again: np.ndarray, wanting: np.ndarray, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which queries prove nothing alone, and which items can be told from chance at all."""
    query, size = flat.part == 0, len(again)
    heavy = np.bincount(flat.item[query], weights[query], size)
    told = np.bincount(flat.item[query & counts], minlength=size)
    beside = np.bincount(flat.item[~query], weights[~query], size)
    weak = again | (heavy < least) | (told == 0) | (wanting & (beside > 0))
    asks = np.bincount(flat.item[query & (flat.sorts != DIGIT)], minlength=size)
    return weak, ~weak | ((heavy + beside >= least) & (beside > 0) & (asks > 0))


def _table(unique: np.ndarray) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    """Return the filter, its shift, the open-address table and the number of the key in each slot."""
    power = max(12, (12 * len(unique)).bit_length())
    bits = np.zeros(2 ** (power - 6), np.uint64)
    place = unique >> u64(64 - power)
    np.bitwise_or.at(bits, (place >> _U6).astype(np.int64), _ONE << (place & _U63))
    size = 2 ** max(4, (3 * len(unique) // 2).bit_length())
    slots, which = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    fill(unique, slots, which)
    return bits, 64 - power, slots, which


@kernel
def fill(unique: Any, slots: Any, which: Any) -> None:
    """Put keys into an open-address table.

    Parameters
    ----------
    unique : (k,) uint64
    slots : (s,) uint64; which : (s,) int32
        Written: the key, and its number.
    """
    mask = len(slots) - 1
    for at in range(len(unique)):
        slot = np.int64(unique[at] >> _U29) & mask
        while slots[slot] != _ZERO:
            slot = (slot + 1) & mask
        slots[slot], which[slot] = unique[at], at


@kernel
def gather(hits: Any, which: Any, first: Any, owners: Any, places: Any, begins: Any, queries: Any, needs: Any) -> Any:
    """Find items of which enough windows stand near each other.

    Parameters
    ----------
    hits : (h, 2) int64
        As `scan` wrote them.
    which, first, owners, places, begins, queries, needs
        Of `Index`.

    Returns
    -------
    (c, 3) int64
        An item, and the least and the greatest number of the term at which it would have to begin.
    """
    size = 0
    for hit in hits[:, 0]:
        key = which[hit & 0xFFFFFFFF]
        size += first[key + 1] - first[key]
    pairs, at = np.empty(size, np.int64), 0
    for hit in hits[:, 0]:
        key = which[hit & 0xFFFFFFFF]
        for k in range(first[key], first[key + 1]):
            pairs[at] = (np.int64(owners[k]) << 33) + ((hit >> 32) - places[k] + (1 << 32))
            at += 1
    pairs.sort()
    out, found, begin = np.empty((size, 3), np.int64), 0, 0
    for at in range(1, size + 1):
        item = pairs[begin] >> 33
        length = begins[item + 1] - begins[item]
        # Support may stand before the query or behind it.
        slack = max(16, length if queries[item] < length else length // 2)
        near = at < size and pairs[at] - pairs[at - 1] <= slack and pairs[at] - pairs[begin] <= 2 * length + 32
        if not near or pairs[at] >> 33 != item:
            if at - begin >= needs[item]:
                out[found, 0] = item
                out[found, 1] = (pairs[begin] & ((1 << 33) - 1)) - (1 << 32)
                out[found, 2] = (pairs[at - 1] & ((1 << 33) - 1)) - (1 << 32)
                found += 1
            begin = at
    return out[:found]


# ── an item beside a document ────────────────────────────────────────────────────────────────────────────────────────

#: In what way an item may stand in a document.
KINDS = ("verbatim", "edited", "reordered", "fragment", "renumbered")

#: Up to this many words nearly all of a query must be found, from that many on the threshold's share; in between the
#: limit goes down evenly. A fragment is at least this share of its query.
_FEW, _MANY, _NEARLY, _PIECE = 10, 25, 0.9, 0.4
#: Bytes a term may take with the markup around it, on average, at first and at most: by it the stretch of a document
#: is cut that is compared.
_ROOM, _ROOM_MOST = 64, 4_096
#: Terms of a query that are laid beside a document to say of which kind a hit is: the price grows with their square.
_ALIGNED = 250
#: Share of the numbers in what was found that must be missing for other numbers to be the difference.
_OTHERS = 0.25


class Hit(NamedTuple):
    """An item found in a document.

    Parameters
    ----------
    benchmark, item : str
        `item` is the name a verdict tells: ``gsm8k/12``.
    start, stop : int, characters
        Where in the text of the document.
    score : float
        Share of the item's query found there, its common parts left out.
    limit : float
        The score from which on it is a hit.
    kind : str
        ``verbatim``: every term, in order; ``edited``; ``reordered``; ``fragment``: one piece of it and no more;
        ``renumbered``: the same item with other numbers.
    number : int
        The item's place in the benchmarks.
    """

    benchmark: str
    item: str
    start: int
    stop: int
    score: float
    limit: float
    kind: str
    number: int


class _Window:
    """A stretch of a document: its terms, what its numbers are, and the grams it is made of."""

    def __init__(self, utf8: bytes, found: Terms) -> None:
        self.utf8, self.found = utf8, found
        self.hashes: list[int] = found.hashes.tolist()
        self.sorts: list[int] = found.sorts.tolist()

    def part(self, begin: int, end: int) -> _Window:
        """Return the terms from one to another."""
        return _Window(self.utf8, Terms(*(one[begin:end] for one in self.found)))

    @cached_property
    def values(self) -> list[int]:
        """What each number is; 0 for other terms."""
        return _values(self.utf8, self.found).tolist()

    @cached_property
    def joined(self) -> list[tuple[int, int, int]]:
        """What numbers side by side would be as one, 1 000 or 1 2 0: (first term, last term, value)."""
        out, starts, stops = [], self.found.starts, self.found.stops
        for begin, end in _runs_of([sort == DIGIT for sort in self.sorts]):
            if end - begin > 1:
                out.append((begin, end - 1, _value(self.utf8[starts[begin] : stops[end - 1]])))
        return out

    def numbers(self, first: int, last: int) -> Counter[int]:
        """Return the numbers between two terms, one by one, and as one where they stand side by side."""
        one_by_one = Counter(self.values[first : last + 1])
        return one_by_one + Counter(value for begin, end, value in self.joined if first <= begin and end <= last)

    @cached_property
    def grams(self) -> frozenset[int]:
        """Every gram that counts."""
        return frozenset(_grams(self.found.hashes, self.found.sorts)[0]) - {0}


def _grams(hashes: np.ndarray, sorts: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the gram that ends at each term, 0 where there is none that counts, and its width."""
    keys, width = _keys(hashes, sorts, *_GRAM)
    at = np.arange(len(keys))
    begin = np.maximum(at - width + 1, 0)
    numbers = np.cumsum(np.append(0, sorts == DIGIT))
    # "p", "p", "p" stands in many a table.
    changes = np.cumsum(np.append(0, hashes[1:] != hashes[:-1]))[: len(at)]
    counts = (at >= width - 1) & (numbers[at + 1] - numbers[begin] <= 1) & (changes > changes[begin])
    return np.where(counts, keys, 0).tolist(), width


def _covered(hashes: np.ndarray, sorts: np.ndarray, other: frozenset[int]) -> list[bool]:
    """Tell of each term whether it is part of a gram that the other side has too."""
    grams, width = _grams(hashes, sorts)
    return _reached(width, np.array([gram in other for gram in grams], bool)).tolist()


def _places(piece: list[int], whole: list[int]) -> Iterator[int]:
    """Yield where a piece stands in a whole, term by term, one behind the other."""
    first, size, at = piece[0], len(piece), 0
    while at <= len(whole) - size:
        found = whole[at] == first and whole[at : at + size] == piece
        if found:
            yield at
        at += size if found else 1


def _longest(covered: Sequence[bool], weights: Sequence[int]) -> int:
    best = run = 0
    for yes, weight in zip(covered, weights, strict=True):
        run = run + weight if yes else 0
        best = max(best, run)
    return best


def _share(covered: Sequence[bool], weights: Sequence[int]) -> float:
    whole = sum(weights)
    return sum(weight for yes, weight in zip(covered, weights, strict=True) if yes) / whole if whole else 0.0


def _stretch(covered: Sequence[bool], weights: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last term of what was found, without what lies far off by chance."""
    groups: list[list[int]] = []
    for at, yes in enumerate(covered):
        if not yes:
            continue
        if not groups or at - groups[-1][1] > 12:
            groups.append([at, at, 0])
        groups[-1][1] = at
        groups[-1][2] += weights[at]
    most = max(weight for _, _, weight in groups)
    kept = [group for group in groups if 4 * group[2] >= most]
    return kept[0][0], kept[-1][1]


@dataclass(frozen=True)
class Decontaminate:
    """Drop or cut documents that hold items of benchmarks.

    Parameters
    ----------
    benchmarks : Benchmarks, or what `load_benchmarks` reads
        Files are read at birth; the stage holds their items.
    unit : str
        What goes: ``document``, or ``paragraph``: what stands between blank lines, or, where that is longer than
        `PARAGRAPH` characters or there are no blank lines, the lines an item was found in.
    threshold : float, share of an item's query
        From 25 words on so much of it must stand within a stretch of about its own length; up to 10 words nearly all
        (0.9), in between evenly less. The length of the document plays no part.
    fragment : int, words
        So many words of an item in a row are a hit too, if they are at least 0.4 of its query. A character of a script
        without blanks is half a word.
    min_words : int, words
        A query with fewer that are not common is a hit only together with its support: a passage, options, an answer.
        So is one that asks about a passage, or the same as another item does about something else.
    shared : int
        A window of 5 words (8 characters) that stands in so many different texts of one benchmark is a phrase of its
        makers, and does not count. A query that is hardly anything but 3 words (5 characters) in a row that stand in
        so many needs its support.
    common : sequence of str or int
        Phrases that do not count, or what `common_windows` found in a corpus.
    chinese : str
        ``simplified``: traditional characters count as the simplified ones; ``as_written``: they do not.
    renumbered : str
        What becomes of a document whose only hits are items with other numbers: ``report``: it stays, and `hits` and
        the signal ``renumbered`` tell; ``drop``: it goes as the others do.

    Raises
    ------
    BadParameter
        If there is no benchmark, or a parameter makes no sense.

    Drops
    -----
    ``contaminated`` with the best score, its limit and the item as twin; ``renumbered`` likewise, if asked for.

    Notes
    -----
    A share of the item in a local window is the measure of Llama 3 and Tulu 3 (8-grams, a share of the item's tokens);
    short items whole and long ones by a share is that of decon (AllenAI); 13 words in a row is GPT-3's.

    Examples
    --------
    >>> toy = Benchmarks((Item("toy", "0", "If Ann is 9 years old and her brother is twice her age, how old is he?"),))
    >>> stage = Decontaminate(benchmarks=toy)
    >>> page = "Hello. IF ANN IS 9 YEARS\\nOLD and her brother is twice her age -- how old is he? Bye."
    >>> stage.judge(Document("1", page))
    Drop(reason='contaminated', value=1.0, limit=0.78, twin='toy/0')
    >>> [(page[hit.start : hit.stop][:14], hit.kind) for hit in stage.hits(Document("1", page))]
    [('IF ANN IS 9 YE', 'verbatim')]
    """

    name: ClassVar[str] = "decontaminate"
    #: How many items were found, and how many with other numbers only.
    signals: ClassVar[tuple[str, ...]] = ("contaminated", "renumbered")

    _: KW_ONLY
    benchmarks: Benchmarks
    unit: str = "document"
    threshold: float = 0.6
    fragment: int = 13
    min_words: int = 8
    shared: int = 5
    common: tuple[str | int, ...] = ()
    chinese: str = "simplified"
    renumbered: str = "report"
    index: Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_choice("unit", self.unit, ("document", "paragraph"))
        _check_choice("chinese", self.chinese, ("simplified", "as_written"))
        _check_choice("renumbered", self.renumbered, ("report", "drop"))
        if not 0 < self.threshold <= _NEARLY:
            raise BadParameter(
                f"text/decontaminate: threshold={self.threshold}; give a share of an item above 0 and up to {_NEARLY}"
            )
        for name, least in (("fragment", 5), ("min_words", 5), ("shared", 2)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise BadParameter(
                    f"text/decontaminate: {name}={getattr(self, name)!r}; give a whole number, {least} or more"
                )
        if not isinstance(self.benchmarks, Benchmarks):
            object.__setattr__(self, "benchmarks", load_benchmarks(self.benchmarks))
        common = (self.common,) if isinstance(self.common, str) else tuple(self.common)
        object.__setattr__(self, "common", common)
        object.__setattr__(self, "index", self._build())

    def _build(self) -> Index:
        stop = [key for one in self.common for key in _phrase_keys(one, self.chinese)]
        return build_index(
            self.benchmarks.items, chinese=self.chinese, shared=self.shared, min_words=self.min_words, common=stop
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason a document may be dropped for."""
        return ("contaminated", "renumbered") if self.renumbered == "drop" else ("contaminated",)

    @property
    def untold(self) -> tuple[int, ...]:
        """Places of items too short or too common to be told from chance: they are never looked for."""
        return tuple(np.flatnonzero(self.index.needs == 0).tolist())

    @property
    def leaning(self) -> tuple[int, ...]:
        """Places of items that are looked for, and are a hit only together with their support."""
        return tuple(np.flatnonzero(self.index.weak & (self.index.needs > 0)).tolist())

    def measure(self, doc: Document) -> np.ndarray:
        """Count the items found: (2,) float64, as `signals` names them."""
        found = self.hits(doc)
        other = sum(hit.kind == "renumbered" for hit in found)
        return np.array([len(found) - other, other], np.float64)

    def verdict(self, doc: Document, values: np.ndarray) -> Drop | Cut | None:
        """Decide by what was measured; where something was found the places are looked up again."""
        going = values[0] or (self.renumbered == "drop" and values[1])
        return self._decide(doc, self.hits(doc)) if going else None

    def judge(self, doc: Document) -> Drop | Cut | None:
        """Look for items and decide."""
        return self._decide(doc, self.hits(doc))

    def _decide(self, doc: Document, found: Sequence[Hit]) -> Drop | Cut | None:
        going = [hit for hit in found if self.renumbered == "drop" or hit.kind != "renumbered"]
        if not going:
            return None
        told = [hit for hit in going if hit.kind != "renumbered"] or going
        best = max(told, key=lambda hit: hit.score)
        reason = "renumbered" if best.kind == "renumbered" else "contaminated"
        drop = Drop(reason, round(best.score, 4), round(best.limit, 4), best.item)
        if self.unit == "document":
            return drop
        spans = _paragraphs(doc.text, going)
        cut = Cut(spans, reason)
        return cut if cut.apply(doc.text).strip() else drop

    def hits(self, doc: Document) -> tuple[Hit, ...]:
        """Return the items found in a document, in the order they stand there, the best of equal places first."""
        utf8 = _utf8(doc)
        windows_found = self._scan(utf8)
        if not len(windows_found):
            return ()
        index = self.index
        candidates = gather(
            windows_found,
            index.which,
            index.first,
            index.owners,
            index.places,
            index.begins,
            index.queries,
            index.needs,
        )
        if not len(candidates):
            return ()
        characters = np.cumsum((np.frombuffer(utf8, np.uint8) & 0xC0) != 0x80) if len(utf8) > len(doc.text) else None
        best: dict[int, list[Hit]] = {}
        for number, low, high in candidates.tolist():
            for hit in self._match(number, low, high, utf8, windows_found):
                if characters is not None:
                    hit = hit._replace(start=int(characters[hit.start]) - 1, stop=int(characters[hit.stop - 1]))
                best[number] = _with(best.get(number, []), hit)
        return tuple(
            sorted((hit for some in best.values() for hit in some), key=lambda hit: (hit.start, -hit.score, hit.number))
        )

    def _scan(self, utf8: bytes) -> np.ndarray:
        """Return the windows found, as `scan` writes them."""
        index, room = self.index, 64
        data, codes = np.frombuffer(utf8, np.uint8), classes(self.chinese)
        while True:
            hits = np.empty((room, 2), np.int64)
            _, found = scan(data, codes, index.bits, index.shift, index.slots, hits, _NO_TERMS)
            if found <= room:
                return hits[:found]
            room = found

    def _around(self, utf8: bytes, hits: np.ndarray, low: int, high: int) -> Terms:
        """Return the terms of a document from one number to another, of which a window was found somewhere between."""
        at = hits[:, 0] >> 32
        first, last = np.searchsorted(at, low), np.searchsorted(at, high, "right") - 1
        known, stop, room = int(at[first]), int(hits[first, 1]), _ROOM
        while True:
            begin = max(0, stop - room * (known - low + 1))
            while begin and utf8[begin] & 0xC0 == 0x80:
                begin -= 1
            end = int(hits[last, 1]) + room * (high - int(at[last]) + 1)
            found = terms(utf8[begin:end], self.chinese)
            # Which of them is which, the window says that ends where this one ends.
            left = int(np.searchsorted(found.stops, stop - begin)) - (known - low)
            # A term at a cut may be half a term, and some words have a thousand letters; a gap without any has no end.
            whole = (left > 0 or not begin) and (left + high - low < len(found.stops) or end >= len(utf8))
            if whole or room >= _ROOM_MOST:
                part = slice(max(0, left), left + high - low)
                starts, stops = found.starts[part] + begin, found.stops[part] + begin
                return Terms(starts, stops, found.hashes[part], found.sorts[part])
            room *= 4

    def _match(self, number: int, low: int, high: int, utf8: bytes, hits: np.ndarray) -> Iterator[Hit]:
        """Compare an item with a stretch of a document; places of a hit are bytes."""
        length = int(self.index.begins[number + 1] - self.index.begins[number])
        pad = max(12, length // 4)
        window = _Window(utf8, self._around(utf8, hits, max(0, low - pad), high + length + pad))
        return self._hits_in(number, window)

    def _hits_in(self, number: int, window: _Window) -> Iterator[Hit]:
        """Yield each place where the whole query stands, and what else of the item is beside it; or its best place."""
        compared, weak = _Compared(self.index, number, window), bool(self.index.weak[number])
        limit = self._weak_limit(compared) if weak else self._limit(compared)
        if compared.score < limit:
            return
        if weak or not compared.places:
            first, last = compared.stretch()
            yield self._hit(number, compared, limit, first, last, compared.kind(first, last))
            return
        begin = 0
        for place in compared.places:
            yield from self._hits_in(number, window.part(begin, place))
            begin = place + compared.query
            yield self._hit(number, compared, limit, place, begin - 1, compared.kind_at(place))
        yield from self._hits_in(number, window.part(begin, len(window.hashes)))

    def _hit(self, number: int, compared: _Compared, limit: float, first: int, last: int, kind: str) -> Hit:
        item, found = self.benchmarks.items[number], compared.window.found
        start, stop = int(found.starts[first]), int(found.stops[last])
        return Hit(item.benchmark, item.name, start, stop, compared.score, limit, kind, number)

    def _limit(self, compared: _Compared) -> float:
        """Return the share of a query that makes a hit: less where a long piece of it stands there in a row."""
        done = min(1.0, max(0.0, (compared.weight / 2 - _FEW) / (_MANY - _FEW)))
        limit = _NEARLY + done * (self.threshold - _NEARLY)
        in_a_row = compared.score < limit and compared.run >= 2 * self.fragment
        return min(_PIECE, limit) if in_a_row else limit

    def _weak_limit(self, compared: _Compared) -> float:
        """A question that proves nothing alone is a hit with what stands beside it: most of that, or a whole piece."""
        # Nearly all of it, however long: some questions quote a good part of the passage they are about.
        return _NEARLY if compared.told >= 2 * self.min_words and compared.supported else math.inf


class _Compared:
    """An item beside a stretch of a document."""

    def __init__(self, index: Index, number: int, window: _Window) -> None:
        begin, end = index.begins[number : number + 2].tolist()
        self.own = index.hashes[begin:end], index.sorts[begin:end]
        self.hashes, self.sorts = self.own[0].tolist(), self.own[1].tolist()
        self.weights, self.parts = index.weights[begin:end].tolist(), index.parts[begin:end].tolist()
        self.values = index.values[begin:end].tolist()
        self.query, self.window = int(index.queries[number]), window
        self.covered = _covered(*self.own, window.grams)
        for at, to in self._pieces():
            # What stands there whole is found, whatever its grams: a short option, a row of numbers with letters.
            if not all(self.covered[at:to]) and next(_places(self.hashes[at:to], window.hashes), -1) >= 0:
                self.covered[at:to] = [True] * (to - at)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        begin = 0
        for at in range(1, len(self.parts) + 1):
            if at == len(self.parts) or self.parts[at] != self.parts[begin]:
                yield begin, at
                begin = at

    @cached_property
    def score(self) -> float:
        """Share of the query that was found; of a query without weight by its words."""
        covered, weights = self.covered[: self.query], self.weights[: self.query]
        if self.query < len(self.hashes) or not sum(weights):
            weights = _WEIGHTS[self.sorts[: self.query]].tolist()
        return _share(covered, weights)

    @cached_property
    def weight(self) -> int:
        """What of the query is not common, in half words."""
        return sum(self.weights[: self.query])

    @cached_property
    def run(self) -> int:
        """The longest piece of the query found, in half words."""
        return _longest(self.covered[: self.query], self.weights[: self.query])

    @cached_property
    def told(self) -> int:
        """What was found of query and support, in half words that are not common."""
        return sum(weight for yes, weight in zip(self.covered, self.weights, strict=True) if yes)

    @cached_property
    def supported(self) -> bool:
        """Whether most of the support was found, or one whole piece of three words or more."""
        beside = [(self.covered[a:b], self.weights[a:b]) for a, b in self._pieces() if a >= self.query]
        if any(sum(weights) >= 6 and _share(covered, weights) >= _NEARLY for covered, weights in beside):
            return True
        return _share(self.covered[self.query :], self.weights[self.query :]) >= 0.5

    @cached_property
    def places(self) -> list[int]:
        """Where in the window the whole query stands term by term, whatever its numbers."""
        return [*_places(self.hashes[: self.query], self.window.hashes)]

    def stretch(self) -> tuple[int, int]:
        """Return the first and the last term of the window that were found."""
        own = frozenset(_grams(*self.own)[0]) - {0}
        covered = _covered(self.window.found.hashes, self.window.found.sorts, own)
        for place in self.places:
            # Numbers at its ends are in no gram.
            covered[place : place + self.query] = [True] * self.query
        if not any(covered):
            return 0, len(covered) - 1
        return _stretch(covered, _WEIGHTS[self.window.found.sorts].tolist())

    def kind_at(self, place: int) -> str:
        """Say in what way the query stands where all of its terms do."""
        return (
            "renumbered"
            if self._other_numbers(self.values[: self.query], place, place + self.query - 1)
            else "verbatim"
        )

    def _other_numbers(self, own: Sequence[int], first: int, last: int) -> bool:
        """Tell whether too many numbers of an item are missing between two terms of the window."""
        told = Counter(value for value in own if value)
        left = told - self.window.numbers(first, last)
        return bool(told) and left.total() >= _OTHERS * told.total()

    def kind(self, first: int, last: int) -> str:
        """Say in what way the query stands between two terms of the window."""
        if self.places:
            return min((self.kind_at(place) for place in self.places), key=("verbatim", "renumbered").index)
        there, query = self.window.hashes[first : last + 1][: 2 * _ALIGNED], self.hashes[: self.query][:_ALIGNED]
        blocks = difflib.SequenceMatcher(None, query, there, autojunk=False).get_matching_blocks()
        ordered = [False] * len(query)
        for block in blocks:
            if block.size > 1:
                ordered[block.a : block.a + block.size] = [True] * block.size
        own = [value for value, yes in zip(self.values, ordered, strict=False) if yes]
        if self._other_numbers(own, first, last):
            return "renumbered"
        weights = _WEIGHTS[self.sorts[: len(query)]].tolist()
        inside = _share(ordered, weights) * sum(weights)
        if inside < 0.8 * min(
            self._told_there(first, last), _share(self.covered[: len(query)], weights) * sum(weights)
        ):
            return "reordered"
        return (
            "fragment" if _longest(ordered, weights) >= _NEARLY * inside and inside < 0.9 * sum(weights) else "edited"
        )

    def _told_there(self, first: int, last: int) -> int:
        """What of the document between two terms is in the query, in half words."""
        own = frozenset(_grams(*(one[: self.query] for one in self.own))[0]) - {0}
        hashes, sorts = (one[first : last + 1] for one in (self.window.found.hashes, self.window.found.sorts))
        told = zip(_covered(hashes, sorts, own), _WEIGHTS[sorts].tolist(), strict=True)
        return sum(weight for yes, weight in told if yes)


def _with(best: list[Hit], hit: Hit) -> list[Hit]:
    """Add a hit to those of its item, unless a better one overlaps it; other numbers are worse than any others."""
    same = [one for one in best if one.start < hit.stop and hit.start < one.stop]
    if any(_rank(one) >= _rank(hit) for one in same):
        return best
    return [*(one for one in best if one not in same), hit]


def _utf8(doc: Document) -> bytes:
    """Return a text as UTF-8; half a surrogate pair, which is none, becomes a question mark, one character too."""
    try:
        return doc.utf8
    except UnicodeEncodeError:
        return doc.text.encode("utf-8", "replace")


def _rank(hit: Hit) -> tuple[bool, float]:
    return hit.kind != "renumbered", hit.score


def _check_choice(what: str, got: str, known: Sequence[str]) -> None:
    if got not in known:
        raise unknown("text/decontaminate", what, str(got), known)


def _phrase_keys(phrase: str | int, chinese: str) -> list[int]:
    if isinstance(phrase, int | np.integer):
        return [int(phrase)]
    found = terms(phrase.encode("utf-8", "replace"), chinese)
    return [key for key in windows(found.hashes, found.sorts).tolist() if key]


#: Characters of a paragraph that is cut as a whole.
PARAGRAPH = 2_000


def _paragraphs(text: str, found: Iterable[Hit]) -> tuple[tuple[int, int], ...]:
    """Return the paragraphs of hits as spans in order, those that touch joined."""
    breaks = [match.span() for match in re.finditer(r"\n[^\S\n]*\n", text)]
    spans: list[tuple[int, int]] = []
    for start, stop in sorted(_paragraph(text, breaks, hit.start, hit.stop) for hit in found):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return tuple(spans)


def _paragraph(text: str, breaks: Sequence[tuple[int, int]], start: int, stop: int) -> tuple[int, int]:
    before = bisect.bisect_right(breaks, start, key=lambda span: span[1])
    after = bisect.bisect_left(breaks, stop, key=lambda span: span[0])
    begin = breaks[before - 1][1] if before else 0
    end = breaks[after][1] if after < len(breaks) else len(text)
    if breaks and end - begin <= max(PARAGRAPH, stop - start):
        return begin, end
    line = text.find("\n", stop)
    return text.rfind("\n", 0, start) + 1, len(text) if line < 0 else line + 1


def common_windows(stage: Decontaminate, docs: Iterable[Document], *, at_least: int) -> tuple[int, ...]:
    """Return windows of items that stand in many documents: quotations, formulas, instructions everybody writes.

    Parameters
    ----------
    stage : Decontaminate
        Of the same benchmarks.
    docs : iterable of Document
        A sample of the corpus. An item that leaked into `at_least` of them counts as common: give a number no leak
        reaches, and look at what is found.
    at_least : int, documents

    Returns
    -------
    tuple of int
        For the parameter `common`, sorted.

    Examples
    --------
    >>> toy = Benchmarks((Item("toy", "0", "Who said that all men are created equal, and in which year?"),))
    >>> docs = [Document(str(n), f"Page {n}: all men are created equal.") for n in range(3)]
    >>> len(common_windows(Decontaminate(benchmarks=toy), docs, at_least=3))
    1
    """
    if at_least < 2:
        raise BadParameter(f"text/decontaminate: at_least={at_least}; a window is common in 2 documents or more")
    counts: Counter[int] = Counter()
    for doc in docs:
        counts.update({*(stage._scan(_utf8(doc))[:, 0] & 0xFFFFFFFF).tolist()})
    return tuple(sorted(int(stage.index.slots[slot]) for slot, n in counts.items() if n >= at_least))


def alignment(item: str, passage: str, chinese: str = "simplified") -> list[tuple[int, int, int, int]]:
    """Return what two texts share, in order: (start, stop) in the item and (start, stop) in the passage, characters.

    Two numbers that differ are not shared, though they stand at the same place.

    Examples
    --------
    >>> alignment("How old is Ann?", "<p>HOW OLD</p> is… Bob?")
    [(0, 10, 3, 17)]
    """
    sides = [text.encode("utf-8", "replace") for text in (item, passage)]
    left, right = (terms(side, chinese) for side in sides)
    values = [_values(side, found).tolist() for side, found in zip(sides, (left, right), strict=True)]
    told = [np.cumsum((np.frombuffer(side, np.uint8) & 0xC0) != 0x80) for side in sides]
    blocks = difflib.SequenceMatcher(None, left.hashes.tolist(), right.hashes.tolist(), autojunk=False)
    out = []
    for block in blocks.get_matching_blocks():
        same = [values[0][block.a + k] == values[1][block.b + k] for k in range(block.size)]
        for begin, end in _runs_of(same) if block.size > 1 else ():
            ours, theirs = block.a + begin, block.b + begin
            out.append((*_ends(left, told[0], ours, end - begin), *_ends(right, told[1], theirs, end - begin)))
    return out


def _runs_of(same: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of what is true in a row."""
    begin = 0
    for at, yes in enumerate([*same, False]):
        if not yes:
            if at > begin:
                yield begin, at
            begin = at + 1


def _ends(found: Terms, characters: np.ndarray, at: int, size: int) -> tuple[int, int]:
    return int(characters[found.starts[at]]) - 1, int(characters[found.stops[at + size - 1] - 1])


# ── does it find what it should? ─────────────────────────────────────────────────────────────────────────────────────


def _lines(text: str) -> str:
    words = re.findall(r"[^\s⺀-鿿豈-﫿]+|[⺀-鿿豈-﫿]", text)
    joined = [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
    return "\n".join(re.sub(r"(?<=[⺀-鿿]) (?=[⺀-鿿])", "", line) for line in joined)


def _wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _markup(text: str) -> str:
    parts = text.split(". ")
    return "".join(f'<p class="q"><b>{part}</b>&nbsp;</p>\n' for part in parts)


def _half(text: str) -> str:
    """The first six tenths of a text, cut between words where there are any."""
    cut = (6 * len(text) + 9) // 10
    blank = text.find(" ", cut)
    return text[: blank if 0 <= blank < cut + 20 else cut]


_QUOTES = str.maketrans({"'": "’", '"': "”", "-": "–", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
_CHINESE_MARKS = str.maketrans(",.?!:;()", "，。？！：；（）")
_TO_TRADITIONAL = str.maketrans(dict(zip(_SIMPLIFIED, _TRADITIONAL, strict=True)))

#: How `self_test` disguises an item; ``embedded`` and ``fragment`` are about where it stands and how much of it.
DISGUISES: dict[str, Callable[[str], str]] = {
    "verbatim": lambda text: text,
    "other_case": lambda text: text.upper(),
    "re_wrapped": _lines,
    "full_width": _wide,
    "other_quotes": lambda text: text.translate(_QUOTES),
    "chinese_punctuation": lambda text: text.translate(_CHINESE_MARKS),
    "traditional": lambda text: text.translate(_TO_TRADITIONAL),
    "markup": _markup,
    "embedded": lambda text: text,
    "fragment": _half,
}

#: Words of the page an item is embedded in, and of what stands around it otherwise.
_PAGE, _AROUND = 3_000, 120


class Recall(NamedTuple):
    """How many planted items were found.

    Parameters
    ----------
    benchmark, disguise : str
    planted, found : int
    """

    benchmark: str
    disguise: str
    planted: int
    found: int


def self_test(
    stage: Decontaminate, *, seed: int = 42, each: int = 20, neutral: Iterable[str] | None = None
) -> list[Recall]:
    """Plant known items in disguise into neutral text and look for them.

    Parameters
    ----------
    stage : Decontaminate
    seed : int
        Of which items, and where they stand.
    each : int, items
        Drawn from each benchmark, of those that can be told from chance (`Decontaminate.untold` are the others). An
        item whose query proves nothing alone is planted with its support. Fragments (six tenths of the query) are
        planted of queries of twice `fragment` words or more, and a disguise only where it changes something.
    neutral : iterable of str or None
        Texts without any of the items. None: the built-in corpus.

    Returns
    -------
    list of Recall
        By benchmark and disguise; one of which nothing could be planted is left out.

    Examples
    --------
    >>> toy = Benchmarks((Item("toy", "0", "How many eggs do three ducks lay in a week of seven days?"),))
    >>> rows = self_test(Decontaminate(benchmarks=toy), neutral=["Nothing to see here. "])
    >>> {(row.planted, row.found) for row in rows}
    {(1, 1)}
    """
    words = _neutral_words(neutral)
    untold, rows = {*stage.untold}, []
    for benchmark in stage.benchmarks.names:
        known = [
            at for at, item in enumerate(stage.benchmarks.items) if item.benchmark == benchmark and at not in untold
        ]
        drawn = sorted(known, key=lambda at: seeds.key(seed, "self_test", stage.benchmarks.items[at].name))[:each]
        for disguise in DISGUISES:
            planted = [(at, text) for at in drawn if (text := _planted(stage, at, disguise)) is not None]
            found = sum(_found(stage, at, _page(stage, at, text, disguise, words, seed)) for at, text in planted)
            if planted:
                rows.append(Recall(benchmark, disguise, len(planted), found))
    return rows


def _neutral_words(neutral: Iterable[str] | None) -> list[str]:
    texts = (doc.text for doc in corpus.documents(60)) if neutral is None else neutral
    words = " ".join(texts).split()
    if not words:
        raise BadParameter("text/decontaminate: neutral holds no words; give texts to plant items in")
    return words * (1 + (_PAGE + _AROUND) // len(words))


def _planted(stage: Decontaminate, at: int, disguise: str) -> str | None:
    """Return an item in disguise; None where the disguise changes nothing, or leaves too little."""
    item, weak = stage.benchmarks.items[at], bool(stage.index.weak[at])
    text = "\n".join((item.query, *item.support)) if weak else item.query
    disguised = DISGUISES[disguise](text)
    if disguise == "fragment":
        begin = int(stage.index.begins[at])
        weights = stage.index.weights[begin : begin + int(stage.index.queries[at])]
        return disguised if not weak and weights.sum() >= 4 * stage.fragment else None
    return disguised if disguised != text or disguise in ("verbatim", "embedded") else None


def _page(stage: Decontaminate, at: int, text: str, disguise: str, words: Sequence[str], seed: int) -> Document:
    size, name = _PAGE if disguise == "embedded" else _AROUND, stage.benchmarks.items[at].name
    begin = seeds.key(seed, "self_test/where", name) % max(1, len(words) - size)
    around = words[begin : begin + size]
    half = len(around) // 2
    return Document(name, f"{' '.join(around[:half])}\n{text}\n{' '.join(around[half:])}")


def _found(stage: Decontaminate, at: int, page: Document) -> bool:
    # Some benchmarks hold a question twice: either will do.
    items = stage.benchmarks.items
    return any(items[hit.number].query == items[at].query for hit in stage.hits(page))
