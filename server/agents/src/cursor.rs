pub(crate) use crate::claude_code::{read, write};
