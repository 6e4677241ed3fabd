"""Nothing is read: start tests train on random tokens."""


class Dataset:
    pass


def load_dataset(*_, **__):
    raise RuntimeError("the stand-in for the package datasets reads none")
