"""Text to nodes and back: the lexer, the parser, the node types, and how nodes are written."""
