"""How a rule of the tree says what it has found."""


def report(problems, what):
    """Prints the problems and how many there are of `what`. Returns the exit code."""
    for problem in problems:
        print(problem)
    print(f"{len(problems)} {what}")
    return 1 if problems else 0
