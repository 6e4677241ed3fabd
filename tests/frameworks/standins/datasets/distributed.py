from datasets import load_dataset as split_dataset_by_node  # noqa: F401
