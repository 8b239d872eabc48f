"""What belongs to a session: its user and permissions, variables, prepared statements and cursors."""
