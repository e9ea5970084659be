//! The checks of a program, one per file. The walk calls each for its kind of node.

pub(crate) mod annotation;
pub(crate) mod argument;
pub(crate) mod assign_to_let;
pub(crate) mod attribute;
pub(crate) mod call_target;
pub(crate) mod coverage;
pub(crate) mod deprecated;
pub(crate) mod enum_variant;
pub(crate) mod exhaustive;
pub(crate) mod generator_return;
pub(crate) mod generic;
pub(crate) mod hidden_division;
pub(crate) mod nilable;
pub(crate) mod no_result;
pub(crate) mod not_executed;
pub(crate) mod operator;
pub(crate) mod overriding;
pub(crate) mod redeclared;
pub(crate) mod result_field;
pub(crate) mod stream_emit;
pub(crate) mod stream_result;
pub(crate) mod struct_field;
pub(crate) mod struct_literal;
pub(crate) mod tool_call;
pub(crate) mod type_name;
pub(crate) mod type_value;
pub(crate) mod unreachable;
pub(crate) mod wrong_call;

pub(crate) use unreachable::{block_exits, dead};
