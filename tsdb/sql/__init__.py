"""SQL text: lexer, statements, parser, and the edits that make a query ready for the query engine. Pure."""
