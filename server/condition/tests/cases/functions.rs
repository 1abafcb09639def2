//! The functions of expressions, nasty input included.
