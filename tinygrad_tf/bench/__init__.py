"""`tinygrad-tf bench`: how fast this machine is, this package on it, and PyTorch beside it where it is installed.

    machine.py, peak.py      what the machine is, and the most that it does
    gpt.py, operations.py    what is measured: the same lines for each library
    own_generation.py        texts as this package writes them
    worker.py, processes.py  a process for each library
    measure.py               rounds of turns; medians, ratios, memory, and whether the libraries agree
    sections.py              the cases of each section
    report.py                the tables as text

Nothing is imported here: PyTorch's process loads worker.py, gpt.py and operations.py, and nothing else of the package.
"""
