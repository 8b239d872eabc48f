"""`tsdb cli`: statements from an option, a script or a terminal, against a server over HTTP."""

from tsdb.cli.shell._run import ShellOptions, run_shell

__all__ = ["ShellOptions", "run_shell"]
