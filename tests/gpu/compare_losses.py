"""compare_losses.py NAME REFERENCE RESULT: the largest relative distance of two runs' losses, step by step.

Tolerance: bf16 keeps 8 bits, so a loss of a model of a few layers differs by up to a few 1e-3 from fp32's. fp8 keeps 4: the
CPU's own fp8 is up to 5.7e-3 away (tiny-latent under ep2.fsdp2). NAME says which it is.
"""

import json
import sys

TOLERANCE = 5e-3
TOLERANCE_OF_FP8 = 1e-2


def losses(path):
    with open(path, encoding="utf-8") as file:
        return [step["loss"] for step in json.load(file)["steps"]]


def main():
    name, reference, result = sys.argv[1], losses(sys.argv[2]), losses(sys.argv[3])
    if len(reference) != len(result):
        print(f"{name}: {len(result)} steps, the reference has {len(reference)}")
        return 1
    worst = max(abs(a - b) / abs(a) for a, b in zip(reference, result))
    print(f"{name}: losses {result[0]:.5f} to {result[-1]:.5f}, at most {worst:.2e} from the CPU's in fp32")
    return 0 if worst <= (TOLERANCE_OF_FP8 if "fp8" in name else TOLERANCE) else 1


if __name__ == "__main__":
    sys.exit(main())
