"""What an aggregation asks for, its groups and its cells."""
