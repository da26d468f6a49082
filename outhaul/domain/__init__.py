"""The rules: what a job is, how it moves, what may be asked, what is worth a retry. Knows no library of the outside."""
