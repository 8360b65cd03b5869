"""What can be read from a history without understanding it: counting, locating and matching words."""
