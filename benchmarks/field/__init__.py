"""A benchmark for the field: regimes of plants, three tasks, and methods that anybody can add.

``python -m benchmarks.field`` runs every method on every regime and writes one page per task and a summary. A
method is a function in a file of its own, twenty lines as in ``benchmarks/field/stranger.py``::

    from benchmarks.field.methods import method

    @method("links", "my method")
    def mine(case):
        return scores  # (n_units, n_units), row: effect, column: cause, larger: more evidence

and ``python -m benchmarks.field --with my_file.py`` puts it into the pages beside the others.
"""
