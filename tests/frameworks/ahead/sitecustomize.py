"""Workers of the next case import while the case before still trains, and wait here until it has ended."""

import os
import sys
import time

# A case may say without which installed package its framework starts.
sys.modules.update({name: None for name in os.environ.get("TRIREME_WITHOUT", "").split(",") if name})

# accelerate starts a single process without a rank.
_is_worker = "LOCAL_RANK" in os.environ or any(word.endswith("train_accelerate.py") for word in sys.orig_argv[1:2])
_gate = os.environ.pop("TRIREME_GATE", "") if _is_worker else ""
if _gate:
    import importlib
    import contextlib

    for _name in os.environ.get("TRIREME_IMPORTS", "torch").split(","):
        with contextlib.suppress(Exception):
            importlib.import_module(_name)
    while not os.path.exists(_gate):
        time.sleep(0.02)
