"""Prep Workbench: raw text in, exactly what a language-model trainer reads out, every decision visible.

The public names are loaded when they are first used (PEP 562), so that importing the library costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.6.1"

#: Where each public name lives.
_HOMES = {
    "AutoTokenizer": "tokens.tokenizer",
    "BadInput": "errors",
    "BadParameter": "errors",
    "BadRecord": "errors",
    "BadShard": "errors",
    "ChatTemplate": "chat.template",
    "Classifier": "text.classifier",
    "Classify": "text.classifier",
    "Conversation": "record",
    "Cut": "record",
    "DEFAULT_REPLACEMENTS": "text.normalize",
    "Decontaminate": "text.decontaminate",
    "Document": "record",
    "Documents": "documents",
    "Drop": "record",
    "ExactDedup": "text.exact_dedup",
    "Extract": "text.extract",
    "IOHandler": "shards.h5",
    "Language": "text.language",
    "Ledger": "ledger",
    "Message": "record",
    "MixedDataset": "feed.mix",
    "Mixture": "text.mixture",
    "NearDedup": "text.near_dedup",
    "Normalize": "text.normalize",
    "Pii": "text.pii",
    "Plan": "tokens.pack",
    "Policy": "chat.mask",
    "PreProcessedDataset": "feed.dataset",
    "Preference": "record",
    "PrepError": "errors",
    "Processor": "chat.process",
    "ProcessorFactory": "chat.process",
    "PromptStrategy": "chat.strategy",
    "Quality": "text.quality",
    "Rated": "record",
    "Repeat": "record",
    "SequencePacker": "tokens.pack",
    "StrategyFactory": "chat.strategy",
    "TextNormalizer": "text.normalize",
    "TokenDataset": "feed.dataset",
    "Url": "text.url",
    "audit": "shuffle.audit",
    "build_shards": "build",
    "cache_jsonl": "build",
    "compare": "shards.compare",
    "convert": "shards.interop",
    "create_dataloader": "feed.loader",
    "decide_files": "decide",
    "diagnose": "chat.diagnose",
    "export_dataset": "source.export",
    "identify": "text.language",
    "open_run": "workspace",
    "plan_packs": "tokens.pack",
    "run": "stage",
    "run_files": "pipeline",
    "shuffle_npz": "shuffle.shuffle_npz",
    "simulate": "chat.row",
    "subsample": "shuffle.subsample",
    "verify": "shards.verify",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prep_lib' has no attribute {name!r}")
    return getattr(importlib.import_module(f"prep_lib.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
