"""The mutation test: every gradient rule and every reference is damaged on purpose, and a row of the table must notice.

    python -m tests.mutation                    # every rule and reference, and a sample of the compiled kernels
    python -m tests.mutation --no-kernels       # in this process alone
    python -m tests.mutation --only softmax     # operations with this in their name

A rule is damaged where it hands over the gradient of one input: in ordinary backward passes ("arrays") or in those
that are differentiated again ("tensors"). A reference is damaged at its inputs: their values stay, their gradients do
not. Kernels are damaged in their sources, in copies of the package.

What a row can notice are its numbers: values and gradients by kernels, by references and with create_graph, and second
derivatives. A mutant that changes none of them in any row is equivalent to the original; every other one must make a
test fail. A rule that no row runs is a failure of the table, too.
"""
