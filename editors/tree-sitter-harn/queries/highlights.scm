; Later patterns take precedence over earlier ones.

(identifier) @variable
((identifier) @constant
  (#match? @constant "^[A-Z][A-Z0-9_]+$"))
((identifier) @type
  (#match? @type "^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$"))
((identifier) @variable.builtin
  (#any-of? @variable.builtin "argv" "context" "skills"))

(type_identifier) @type
((type_identifier) @type.builtin
  (#any-of? @type.builtin
    "any" "bool" "bytes" "closure" "dict" "duration" "float" "int" "list" "never" "nil" "number" "set" "string"
    "unknown"))

(parameter name: (identifier) @variable.parameter)
(closure (parameter name: (identifier) @variable.parameter))

(function name: (identifier) @function)
(interface_method name: (identifier) @function)
(override name: (identifier) @function)
(pipeline name: (identifier) @function)
(pipeline base: (identifier) @function)
(tool name: (identifier) @function)
(skill name: (identifier) @constant)
(eval_pack name: (identifier) @constant)
(variant name: (identifier) @constructor)

(call function: (identifier) @function.call)
(call function: (member name: (identifier) @function.method.call))
(member name: (identifier) @property)
(call function: (member name: (identifier) @function.method.call))

(entry key: (identifier) @property)
(struct_field name: (identifier) @property)
(shape_field name: (identifier) @property)
(variant_field name: (identifier) @property)
(field_pattern name: (identifier) @property)
(tool_field name: (identifier) @property)
(skill_field name: (identifier) @property)
(pack_field name: (identifier) @property)
(attribute "@" @attribute name: (identifier) @attribute)
(attribute_argument name: (identifier) @property)

(integer) @number
(float) @number.float
(duration) @number
(boolean) @boolean
(nil) @constant.builtin

(string) @string
(string_content) @string
(multiline_content) @string
(raw_string) @string
(escape) @string.escape
(interpolation
  "${" @punctuation.special
  "}" @punctuation.special) @embedded
(import path: (string) @string.special.path)

(shebang) @keyword.directive
(line_comment) @comment
(block_comment) @comment
((line_comment) @comment.documentation
  (#match? @comment.documentation "^///([^/]|$)"))
((block_comment) @comment.documentation
  (#match? @comment.documentation "^/\\*\\*[^*]"))

[
  "let" "var" "override" "enum" "struct" "type" "interface" "impl" "skill" "eval_pack" "summarize" "where" "extends" "out"
] @keyword
["fn" "gen" "pipeline" "tool"] @keyword.function
["if" "else" "match" "guard" "require" "select" "timeout" "default"] @keyword.conditional
["for" "while" "in" "to" "exclusive" (break) (continue)] @keyword.repeat
["return" "yield" "emit"] @keyword.return
["throw" "try" "catch" "finally" "retry" "deadline" "defer"] @keyword.exception
["spawn" "parallel" "each" "settle" "with" "as" "stream" "mutex"] @keyword.coroutine
["import" "from"] @keyword.import
"pub" @keyword.modifier
["not"] @keyword.operator

["=" "+=" "-=" "*=" "/=" "%=" "==" "!=" "<" ">" "<=" ">=" "+" "-" "*" "/" "%" "**" "&&" "||" "??" "!" "|>" "|" "..."] @operator
["?" "?." "->"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," "." ":" ";"] @punctuation.delimiter
