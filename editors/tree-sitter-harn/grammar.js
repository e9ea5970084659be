/**
 * The grammar of Harn for tree-sitter.
 *
 * Layout-dependent tokens are in src/scanner.c: line feeds that separate, `{` that opens a closure or the fields of a
 * struct, `?` with a matching `:`, and `<` that opens type arguments.
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

const PREC = {
  pipe: 1,
  range: 2,
  ternary: 3,
  or: 4,
  and: 5,
  equality: 6,
  compare: 7,
  add: 8,
  coalesce: 9,
  multiply: 10,
  power: 11,
  unary: 12,
  postfix: 13,
};

const digits = /[0-9](_?[0-9])*/.source;

/** Items separated by commas or line feeds; a trailing separator is allowed. */
const list = ($, item) => optional(seq(item, repeat(seq($._comma, item)), optional($._comma)));

/** Items separated by line feeds, commas or nothing. */
const loose = ($, item) => repeat(seq(item, optional($._comma)));

/** Items separated by line feeds or nothing. */
const entries = ($, item) => repeat(seq(item, optional(choice($._newline, ';'))));

module.exports = grammar({
  name: 'harn',

  externals: ($) => [
    $._newline,
    $._closure_open,
    $._struct_open,
    $._question_ternary,
    $._question_index,
    $._question_propagate,
    $._type_arguments_open,
    $.string_content,
    $.multiline_content,
    $.block_comment,
  ],

  extras: ($) => [/[\s\uFEFF]/, /\\\r?\n/, $.line_comment, $.block_comment],

  word: ($) => $.identifier,

  supertypes: ($) => [$._expression, $._statement, $._declaration, $._type],

  conflicts: ($) => [
    [$._name, $.summarize],
    [$._name, $.struct_literal],
    [$._field_dict, $.struct_literal],
    [$.element_pattern, $._name],
    [$.rest_pattern, $._name],
    [$.field_pattern, $._name],
  ],

  rules: {
    source_file: ($) => seq(optional($.shebang), optional($._statements)),

    shebang: () => /#![^\n]*/,

    _separator: ($) => choice($._newline, repeat1(';')),
    _comma: ($) => choice(',', $._newline),
    _statements: ($) => seq($._statement, repeat(seq($._separator, $._statement)), optional($._separator)),

    // `{` of a block, possibly on the next line. The scanner may have classified it as a struct literal, because it
    // has no information about names.
    _open: ($) => seq(optional($._newline), $._brace),
    _brace: ($) => choice('{', $._struct_open),
    block: ($) => seq($._open, optional($._statements), '}'),

    // ---- statements ----

    _statement: ($) =>
      choice(
        $.let,
        $.assignment,
        $.for,
        $.while,
        $.guard,
        $.require,
        $.return,
        $.yield,
        $.throw,
        $.emit,
        $.break,
        $.continue,
        $.defer,
        $.mutex,
        $.override,
        $.import,
        $._declaration,
        $._expression,
      ),

    let: ($) =>
      seq(
        choice('let', 'var'),
        field('pattern', $._pattern),
        optional(seq(':', field('type', $._type))),
        '=',
        field('value', $._expression),
      ),
    assignment: ($) =>
      prec.right(
        seq(
          field('left', $._expression),
          field('operator', choice('=', '+=', '-=', '*=', '/=', '%=')),
          field('right', $._expression),
        ),
      ),
    for: ($) =>
      seq(
        'for',
        field('pattern', choice($._pattern, $.pair_pattern)),
        'in',
        field('iterable', $._expression),
        field('body', $.block),
      ),
    while: ($) => seq('while', field('condition', $._expression), field('body', $.block)),
    guard: ($) => seq('guard', field('condition', $._expression), 'else', field('body', $.block)),
    require: ($) => seq('require', field('condition', $._expression), optional(seq(',', $._expression))),
    return: ($) => prec.right(seq('return', optional($._expression))),
    yield: ($) => prec.right(seq('yield', optional($._expression))),
    throw: ($) => seq('throw', $._expression),
    emit: ($) => seq('emit', $._expression),
    break: () => 'break',
    continue: () => 'continue',
    defer: ($) => seq('defer', $.block),
    mutex: ($) => seq('mutex', $.block),
    override: ($) =>
      seq('override', field('name', $.identifier), field('parameters', $.parameters), field('body', $.block)),
    import: ($) =>
      seq(
        optional('pub'),
        'import',
        optional(seq('{', list($, $.identifier), '}', 'from')),
        field('path', choice($.string, $.raw_string)),
      ),

    // ---- patterns ----

    _pattern: ($) => choice($.identifier, $.list_pattern, $.dict_pattern),
    pair_pattern: ($) => seq('(', $.identifier, ',', $.identifier, optional($._newline), ')'),
    list_pattern: ($) => seq('[', list($, choice($.element_pattern, $.rest_pattern)), ']'),
    element_pattern: ($) => seq($.identifier, optional(seq('=', $._expression))),
    dict_pattern: ($) => seq('{', list($, choice($.field_pattern, $.rest_pattern)), '}'),
    field_pattern: ($) =>
      seq(
        field('name', $.identifier),
        optional(seq(':', field('variable', $.identifier))),
        optional(seq('=', field('default', $._expression))),
      ),
    rest_pattern: ($) => seq('...', $.identifier),

    // ---- declarations ----

    _declaration: ($) =>
      choice(
        $.function,
        $.pipeline,
        $.tool,
        $.skill,
        $.eval_pack,
        $.enum,
        $.struct,
        $.type_alias,
        $.interface,
        $.impl,
      ),

    _modifiers: ($) => seq(repeat1(seq($.attribute, optional($._newline))), optional('pub')),
    _head: ($) => choice($._modifiers, 'pub'),
    attribute: ($) =>
      prec.right(seq('@', field('name', choice($.identifier, alias('retry', $.identifier))), optional(seq('(', list($, $.attribute_argument), ')')))),
    attribute_argument: ($) => seq(optional(seq(field('name', $.identifier), ':')), $._attribute_value),
    _attribute_value: ($) =>
      choice(
        $.string,
        $.raw_string,
        $.boolean,
        $.nil,
        $.identifier,
        $.attribute_list,
        $.duration,
        seq(optional('-'), choice($.integer, $.float)),
      ),
    attribute_list: ($) => seq('[', list($, $._attribute_value), ']'),

    function: ($) => seq(optional($._head), $._signature, field('body', $.block)),
    _signature: ($) =>
      seq(
        optional('gen'),
        'fn',
        field('name', $.identifier),
        optional(field('type_parameters', $.type_parameters)),
        field('parameters', $.parameters),
        optional(seq('->', field('result', $._type))),
        optional($.where_clause),
      ),
    where_clause: ($) => seq('where', $.bound, repeat(seq(',', $.bound)), optional(',')),
    bound: ($) => seq($.identifier, ':', alias($.identifier, $.type_identifier)),
    parameters: ($) => seq('(', list($, $.parameter), ')'),
    parameter: ($) =>
      seq(
        repeat($.limit),
        optional('...'),
        field('name', $.identifier),
        optional(seq(':', field('type', $._type))),
        optional(seq('=', field('default', $._expression))),
      ),
    type_parameters: ($) => seq('<', list($, $.type_parameter), '>'),
    type_parameter: ($) =>
      choice(
        seq(optional(choice('in', 'out')), alias($.identifier, $.type_identifier)),
        alias('out', $.type_identifier),
      ),

    pipeline: ($) =>
      seq(
        optional($._head),
        'pipeline',
        field('name', $.identifier),
        field('parameters', $.parameters),
        optional(seq('->', field('result', $._type))),
        optional(seq('extends', field('base', $.identifier))),
        field('body', $.block),
      ),

    tool: ($) =>
      seq(
        optional($._head),
        'tool',
        field('name', $.identifier),
        field('parameters', $.parameters),
        optional(seq('->', field('result', $._type))),
        field('body', $.tool_body),
      ),
    tool_body: ($) =>
      seq(
        $._open,
        optional(
          seq(
            choice($.tool_field, $._statement),
            repeat(seq($._separator, choice($.tool_field, $._statement))),
            optional($._separator),
          ),
        ),
        '}',
      ),
    tool_field: ($) =>
      prec.dynamic(1, seq(
        field('name', $.identifier),
        field('value', choice($.string, $.raw_string, $.boolean, $.dict, alias($._field_dict, $.dict))),
      )),

    _field_dict: ($) => seq($._struct_open, list($, choice($.entry, $.spread)), '}'),

    skill: ($) =>
      seq(
        optional($._head),
        'skill',
        field('name', $.identifier),
        $._open,
        optional(seq($.skill_field, repeat(seq($._separator, $.skill_field)), optional($._separator))),
        '}',
      ),
    skill_field: ($) => seq(field('name', $.identifier), field('value', $._expression)),

    eval_pack: ($) =>
      seq(
        optional($._head),
        'eval_pack',
        choice(seq(field('name', $.identifier), optional($.string)), field('name', $.string)),
        $._open,
        optional(
          seq(
            choice($.pack_field, $.summarize, $._statement),
            repeat(seq($._separator, choice($.pack_field, $.summarize, $._statement))),
            optional($._separator),
          ),
        ),
        '}',
      ),
    pack_field: ($) => seq(field('name', $.identifier), ':', field('value', $._expression)),
    summarize: ($) => seq('summarize', $.block),

    enum: ($) =>
      seq(
        optional($._head),
        'enum',
        field('name', alias($.identifier, $.type_identifier)),
        optional($.type_parameters),
        $._open,
        loose($, $.variant),
        '}',
      ),
    variant: ($) => seq(field('name', $.identifier), optional(seq('(', list($, $.variant_field), ')'))),
    variant_field: ($) => choice(seq(field('name', $.identifier), ':', field('type', $._type)), $._type),

    struct: ($) =>
      seq(
        optional($._head),
        'struct',
        field('name', alias($.identifier, $.type_identifier)),
        optional($.type_parameters),
        $._open,
        loose($, $.struct_field),
        '}',
      ),
    struct_field: ($) =>
      seq(
        repeat($.limit),
        field('name', $.identifier),
        optional('?'),
        optional(seq(':', field('type', $._type))),
      ),

    type_alias: ($) =>
      seq(
        optional($._head),
        'type',
        field('name', alias($.identifier, $.type_identifier)),
        optional($.type_parameters),
        '=',
        field('type', $._type),
      ),

    interface: ($) =>
      seq(
        optional($._head),
        'interface',
        field('name', alias($.identifier, $.type_identifier)),
        optional($.type_parameters),
        $._open,
        entries($, choice($.associated_type, $.interface_method)),
        '}',
      ),
    associated_type: ($) =>
      seq('type', field('name', alias($.identifier, $.type_identifier)), optional(seq('=', $._type))),
    interface_method: ($) =>
      seq(
        'fn',
        field('name', $.identifier),
        optional($.type_parameters),
        field('parameters', $.parameters),
        optional(seq('->', field('result', $._type))),
      ),

    impl: ($) =>
      seq(
        repeat(seq($.attribute, optional($._newline))),
        'impl',
        field('name', alias($.identifier, $.type_identifier)),
        $._open,
        entries($, alias($.method, $.function)),
        '}',
      ),
    method: ($) => seq(optional('pub'), $._signature, field('body', $.block)),

    // ---- types ----

    _type: ($) => choice($.union_type, $._member_type),
    union_type: ($) => prec.left(seq($._type, '|', $._member_type)),
    _member_type: ($) =>
      choice($.named_type, $.list_type, $.shape_type, $.function_type, $.literal_type),
    named_type: ($) => seq(alias($.identifier, $.type_identifier), optional($.type_arguments)),
    type_arguments: ($) => seq('<', list($, $._type), '>'),
    list_type: ($) => seq('[', $._type, optional($._newline), ']'),
    shape_type: ($) => seq('{', loose($, $.shape_field), '}'),
    shape_field: ($) =>
      seq(repeat($.limit), field('name', $.identifier), optional('?'), ':', field('type', $._type)),
    // `@range(0..=150)` before a field or parameter.
    limit: ($) =>
      seq('@', field('name', $.identifier), '(', choice($._attribute_value, $.bounds), ')', optional($._newline)),
    bounds: ($) =>
      seq(optional($._attribute_value), choice('..', '..='), optional($._attribute_value)),
    function_type: ($) => prec.right(seq('fn', '(', list($, $._type), ')', '->', $._type)),
    literal_type: ($) =>
      choice($.string, $.raw_string, $.boolean, $.nil, seq(optional('-'), $.integer)),

    // ---- expressions ----

    _expression: ($) =>
      choice(
        $._name,
        $.integer,
        $.float,
        $.duration,
        $.string,
        $.raw_string,
        $.boolean,
        $.nil,
        $.parenthesized,
        $.list,
        $.dict,
        $.closure,
        $.anonymous_function,
        $.if,
        $.match,
        $.try,
        $.retry,
        $.deadline,
        $.spawn,
        $.parallel,
        $.select,
        $.struct_literal,
        $.unary,
        $.binary,
        $.ternary,
        $.range,
        $.pipe,
        $.call,
        $.member,
        $.index,
        $.slice,
        $.propagate,
      ),

    // Contextual keywords are ordinary names everywhere else.
    _name: ($) =>
      choice($.identifier, alias(choice('gen', 'summarize'), $.identifier)),

    parenthesized: ($) => seq('(', $._expression, optional($._newline), ')'),
    list: ($) => seq('[', list($, choice($._expression, $.spread)), ']'),
    spread: ($) => seq('...', $._expression),
    dict: ($) => seq('{', list($, choice($.entry, $.spread)), '}'),
    entry: ($) =>
      seq(
        field(
          'key',
          choice($.identifier, $.string, $.raw_string, seq('[', $._expression, optional($._newline), ']')),
        ),
        ':',
        field('value', $._expression),
      ),
    struct_literal: ($) =>
      seq(
        field('name', alias($.identifier, $.type_identifier)),
        $._struct_open,
        list($, choice($.entry, $.spread)),
        '}',
      ),
    closure: ($) =>
      seq(
        $._closure_open,
        list($, choice($.parameter, $.list_pattern, $.dict_pattern)),
        '->',
        optional($._statements),
        '}',
      ),
    anonymous_function: ($) => seq('fn', field('parameters', $.parameters), field('body', $.block)),

    if: ($) =>
      prec.right(
        seq(
          'if',
          field('condition', $._expression),
          field('consequence', $.block),
          optional(seq('else', field('alternative', choice($.block, $.if)))),
        ),
      ),
    match: ($) => seq('match', field('value', $._expression), $._open, entries($, $.match_arm), '}'),
    match_arm: ($) =>
      seq(
        field('pattern', seq($._expression, repeat(seq('|', $._expression)))),
        optional(seq('if', field('guard', $._expression))),
        '->',
        field('body', $.block),
      ),
    try: ($) =>
      prec.right(
        seq('try', field('body', $.block), optional($.catch), optional(seq('finally', field('finally', $.block)))),
      ),
    catch: ($) =>
      seq(
        'catch',
        optional(
          choice(
            $.identifier,
            seq('(', $.identifier, optional(seq(':', $._type)), optional($._newline), ')'),
          ),
        ),
        $.block,
      ),
    retry: ($) => seq('retry', $._expression, $.block),
    deadline: ($) => seq('deadline', $._expression, $.block),
    spawn: ($) => seq('spawn', $.block),
    parallel: ($) =>
      seq(
        'parallel',
        optional(choice('each', 'settle')),
        field('source', $._expression),
        optional(seq('with', $.dict)),
        field('body', alias($.parallel_body, $.block)),
        optional(seq('as', 'stream')),
      ),
    parallel_body: ($) =>
      seq($._open, optional(seq(optional(field('parameter', $._pattern)), '->')), optional($._statements), '}'),
    select: ($) => seq('select', $._open, entries($, $.select_case), '}'),
    select_case: ($) =>
      choice(
        seq(field('name', $._case_name), 'from', field('channel', $._expression), field('body', $.block)),
        seq('timeout', $._expression, field('body', $.block)),
        seq('default', field('body', $.block)),
      ),

    _case_name: ($) => choice($.identifier, alias(choice('timeout', 'default'), $.identifier)),

    unary: ($) =>
      prec(PREC.unary, seq(field('operator', choice('!', '-', seq('try', '*'))), field('operand', $._expression))),
    binary: ($) => {
      const table = [
        [PREC.or, '||'],
        [PREC.and, '&&'],
        [PREC.equality, choice('==', '!=')],
        [PREC.compare, choice('<', '>', '<=', '>=', 'in', seq('not', 'in'))],
        [PREC.add, choice('+', '-')],
        [PREC.coalesce, '??'],
        [PREC.multiply, choice('*', '/', '%')],
      ];
      const infix = table.map(([level, operator]) =>
        prec.left(
          level,
          seq(field('left', $._expression), field('operator', operator), field('right', $._expression)),
        ),
      );
      const power = prec.right(
        PREC.power,
        seq(field('left', $._expression), field('operator', '**'), field('right', $._expression)),
      );
      return choice(...infix, power);
    },
    ternary: ($) =>
      prec.right(
        PREC.ternary,
        seq(
          field('condition', $._expression),
          alias($._question_ternary, '?'),
          optional($._newline),
          field('consequence', $._expression),
          ':',
          field('alternative', $._expression),
        ),
      ),
    range: ($) =>
      prec.left(PREC.range, seq($._expression, 'to', $._expression, optional('exclusive'))),
    pipe: ($) => prec.left(PREC.pipe, seq($._expression, '|>', $._expression)),

    call: ($) =>
      choice(
        prec(PREC.postfix, seq(field('function', $._expression), field('arguments', $.arguments))),
        // Only a bare name takes type arguments: `f<T>(x)`.
        seq(
          field('function', $.identifier),
          field('type_arguments', alias($._call_types, $.type_arguments)),
          field('arguments', $.arguments),
        ),
      ),
    _call_types: ($) => seq(alias($._type_arguments_open, '<'), list($, $._type), '>'),
    // `schema_of` takes a type, if it is not a single name.
    arguments: ($) => seq('(', list($, choice($._expression, $.spread, $._written_type)), ')'),
    _written_type: ($) =>
      choice(alias($._generic_type, $.named_type), alias($._written_union, $.union_type)),
    _generic_type: ($) =>
      seq(alias($.identifier, $.type_identifier), alias($._call_types, $.type_arguments)),
    _plain_type: ($) => alias($.identifier, $.type_identifier),
    _written_union: ($) =>
      prec.left(
        seq(
          choice(
            alias($._generic_type, $.named_type),
            alias($._plain_type, $.named_type),
            $.literal_type,
            alias($._written_union, $.union_type),
          ),
          '|',
          $._member_type,
        ),
      ),
    member: ($) =>
      prec(PREC.postfix, seq(field('object', $._expression), choice('.', '?.'), field('name', $.identifier))),
    index: ($) =>
      prec(
        PREC.postfix,
        seq(field('object', $._expression), optional(alias($._question_index, '?')), '[', $._expression, optional($._newline), ']'),
      ),
    slice: ($) =>
      prec(
        PREC.postfix,
        seq(
          field('object', $._expression),
          '[',
          optional($._expression),
          ':',
          optional($._expression),
          optional($._newline),
          ']',
        ),
      ),
    propagate: ($) => prec(PREC.postfix, seq($._expression, alias($._question_propagate, '?'))),

    // ---- tokens ----

    identifier: () => /[\p{L}_][\p{L}\p{N}_]*/,
    integer: () =>
      token(choice(new RegExp(digits), /0x[0-9A-Fa-f](_?[0-9A-Fa-f])*/, /0o[0-7](_?[0-7])*/, /0b[01](_?[01])*/)),
    float: () =>
      token(
        choice(
          new RegExp(`${digits}\\.${digits}([eE][+-]?[0-9]+)?`),
          new RegExp(`${digits}[eE][+-]?[0-9]+`),
        ),
      ),
    duration: () => token(new RegExp(`${digits}(ms|s|m|h|d|w)`)),
    boolean: () => choice('true', 'false'),
    nil: () => 'nil',

    string: ($) =>
      choice(
        seq('"', repeat(choice($.string_content, $.escape, $.interpolation)), token.immediate('"')),
        seq('"""', repeat(choice($.multiline_content, $.interpolation)), token.immediate('"""')),
      ),
    escape: () => token.immediate(/\\(u\{[0-9A-Fa-f]+\}|[^\n])/),
    interpolation: ($) => seq(token.immediate('${'), $._expression, optional($._newline), '}'),
    raw_string: () => token(/r"[^"\n]*"/),

    line_comment: () => token(/\/\/[^\n]*/),
  },
});
