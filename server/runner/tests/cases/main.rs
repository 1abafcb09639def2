//! The runner against real processes, by case number.

#[cfg(test)]
mod cap;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod start;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod workers;
