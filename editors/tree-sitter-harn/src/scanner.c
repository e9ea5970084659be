// External scanner for everything that the grammar cannot express: line feeds that separate statements and items,
// `{` that opens a closure or the fields of a struct, `?` with a matching `:`, `<` that opens type arguments, the
// content of strings, and nested comments.

#include "tree_sitter/parser.h"

#include <stdlib.h>
#include <string.h>

enum Token { NEWLINE, CLOSURE_OPEN, STRUCT_OPEN, TERNARY, OPTIONAL_INDEX, PROPAGATE, TYPE_ARGUMENTS, STRING_CONTENT, MULTILINE_CONTENT, BLOCK_COMMENT };

// Whether the most recent comment contained a line feed that separates statements.
typedef struct {
  bool pending;
} Scanner;

void *tree_sitter_harn_external_scanner_create(void) { return calloc(1, sizeof(Scanner)); }

void tree_sitter_harn_external_scanner_destroy(void *payload) { free(payload); }

unsigned tree_sitter_harn_external_scanner_serialize(void *payload, char *buffer) {
  buffer[0] = (char)((Scanner *)payload)->pending;
  return 1;
}

void tree_sitter_harn_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  ((Scanner *)payload)->pending = length > 0 && buffer[0] != 0;
}

static void next(TSLexer *lexer) { lexer->advance(lexer, false); }

static bool is_word(int32_t c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c > 127;
}

// Skips a block comment after its `/*`; comments nest. An unclosed one extends to the end of the source.
static void pass_block_comment(TSLexer *lexer) {
  unsigned depth = 1;
  while (depth > 0 && !lexer->eof(lexer)) {
    int32_t c = lexer->lookahead;
    next(lexer);
    if (c == '*' && lexer->lookahead == '/') {
      next(lexer);
      depth--;
    } else if (c == '/' && lexer->lookahead == '*') {
      next(lexer);
      depth++;
    }
  }
}

static void pass_line(TSLexer *lexer) {
  while (!lexer->eof(lexer) && lexer->lookahead != '\n') next(lexer);
}

static bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0xFEFF; }

// Skips whitespace, line feeds and comments. Returns true if it consumed a `/` that does not start a comment.
static bool pass_space(TSLexer *lexer) {
  for (;;) {
    int32_t c = lexer->lookahead;
    if (lexer->eof(lexer)) return false;
    if (is_blank(c)) {
      next(lexer);
    } else if (c == '/') {
      next(lexer);
      if (lexer->lookahead == '/') {
        pass_line(lexer);
      } else if (lexer->lookahead == '*') {
        next(lexer);
        pass_block_comment(lexer);
      } else {
        return true;
      }
    } else {
      return false;
    }
  }
}

static void pass_word(TSLexer *lexer, char *word, unsigned size) {
  unsigned length = 0;
  while (!lexer->eof(lexer) && is_word(lexer->lookahead)) {
    if (length + 1 < size) word[length++] = (char)lexer->lookahead;
    next(lexer);
  }
  word[length] = 0;
}

// Returns whether the line that begins here continues the previous one.
static bool joins(TSLexer *lexer, bool slash) {
  if (slash) return lexer->lookahead != '=';
  if (lexer->eof(lexer)) return true;
  int32_t c = lexer->lookahead;
  switch (c) {
    case '<': case '>': case '?': case ':': case '|': case ',':
      return true;
    case '+': case '%':
      next(lexer);
      return lexer->lookahead != '=';
    case '*':
      next(lexer);
      return lexer->lookahead != '=';
    case '&':
      return true;
    case '=': case '!':
      next(lexer);
      return lexer->lookahead == '=';
    case '.':
      next(lexer);
      return lexer->lookahead != '.';
    default:
      break;
  }
  if (is_word(c)) {
    char word[16];
    pass_word(lexer, word, sizeof word);
    if (strcmp(word, "else") == 0 || strcmp(word, "catch") == 0 || strcmp(word, "finally") == 0) {
      pass_space(lexer);
      return lexer->lookahead != ':' && lexer->lookahead != '?';
    }
  }
  return false;
}

// Limits of the lookahead for an arrow or a colon, and of the nesting of strings. They bound the parsing time to a
// multiple of the source length, and the stack usage.
enum { FARTHEST = 4000, DEEPEST = 100 };

// Skips a string after its first quote.
static void pass_nested_string(TSLexer *lexer, unsigned level) {
  bool triple = false;
  if (lexer->lookahead == '"') {
    next(lexer);
    if (lexer->lookahead != '"') return;
    next(lexer);
    triple = true;
  }
  while (!lexer->eof(lexer)) {
    int32_t c = lexer->lookahead;
    next(lexer);
    if (c == '\\' && !triple) {
      if (!lexer->eof(lexer)) next(lexer);
    } else if (c == '$' && lexer->lookahead == '{') {
      next(lexer);
      // Skips to the end of the interpolation, regardless of its content.
      unsigned depth = 1;
      while (depth > 0 && !lexer->eof(lexer)) {
        int32_t inner = lexer->lookahead;
        next(lexer);
        if (inner == '{') depth++;
        if (inner == '}') depth--;
        if (inner == '"' && level < DEEPEST) pass_nested_string(lexer, level + 1);
      }
    } else if (c == '\n' && !triple) {
      return;
    } else if (c == '"') {
      if (!triple) return;
      if (lexer->lookahead == '"') {
        next(lexer);
        if (lexer->lookahead == '"') {
          next(lexer);
          return;
        }
      }
    }
  }
}

static void pass_string(TSLexer *lexer) { pass_nested_string(lexer, 0); }

// Returns whether an `->` is directly inside the innermost open brackets.
static bool find_arrow(TSLexer *lexer) {
  unsigned depth = 0;
  for (unsigned steps = 0; steps < FARTHEST && !lexer->eof(lexer); steps++) {
    int32_t c = lexer->lookahead;
    next(lexer);
    switch (c) {
      case '{': case '(': case '[':
        depth++;
        break;
      case '}': case ')': case ']':
        if (depth == 0) return false;
        depth--;
        break;
      case '"':
        pass_string(lexer);
        break;
      case '/':
        if (lexer->lookahead == '/') {
          pass_line(lexer);
        } else if (lexer->lookahead == '*') {
          next(lexer);
          pass_block_comment(lexer);
        }
        break;
      case '-':
        if (depth == 0 && lexer->lookahead == '>') return true;
        break;
      default:
        if (is_word(c)) {
          bool raw = c == 'r' && lexer->lookahead == '"';
          while (is_word(lexer->lookahead)) next(lexer);
          if (raw) {
            next(lexer);
            while (!lexer->eof(lexer) && lexer->lookahead != '"' && lexer->lookahead != '\n') next(lexer);
            next(lexer);
          }
        }
        break;
    }
  }
  return false;
}

// Classifies the `{` that is the lookahead.
static bool scan_open(TSLexer *lexer, const bool *valid) {
  next(lexer);
  lexer->mark_end(lexer);
  if (valid[CLOSURE_OPEN]) {
    lexer->result_symbol = CLOSURE_OPEN;
    return find_arrow(lexer);
  }
  bool fields = false;
  if (pass_space(lexer)) return false;
  if (lexer->lookahead == '}') {
    fields = true;
  } else if (lexer->lookahead == '.') {
    next(lexer);
    fields = lexer->lookahead == '.';
  } else if (lexer->lookahead == '"' || is_word(lexer->lookahead)) {
    if (lexer->lookahead == '"') {
      next(lexer);
      pass_string(lexer);
    } else {
      while (is_word(lexer->lookahead)) next(lexer);
    }
    fields = !pass_space(lexer) && lexer->lookahead == ':';
  }
  lexer->result_symbol = STRUCT_OPEN;
  return fields;
}

// Returns whether an expression can begin here. Consumes a word.
static bool starts_expression(TSLexer *lexer) {
  static const char *const others[] = {
      "break", "catch", "continue", "defer", "else", "emit", "enum", "eval_pack", "exclusive", "extends", "finally", "for",
      "from", "guard", "impl", "import", "in", "interface", "let", "mutex", "override", "pipeline", "pub", "require",
      "return", "skill", "struct", "throw", "to", "tool", "type", "var", "while", "yield"};
  int32_t c = lexer->lookahead;
  if (lexer->eof(lexer)) return false;
  if (!is_word(c)) return c == '"' || c == '(' || c == '[' || c == '{' || c == '-' || c == '!';
  char word[16];
  pass_word(lexer, word, sizeof word);
  for (unsigned at = 0; at < sizeof others / sizeof *others; at++) {
    if (strcmp(word, others[at]) == 0) return false;
  }
  return true;
}

// The `?` of one statement that may have a matching `:`. Those that more likely end an expression are matched last.
enum { MOST_QUESTIONS = 32 };
typedef struct {
  bool strong[MOST_QUESTIONS];
  unsigned count;
} Questions;

// Inspects the source after a `?` and records it if it may have a matching `:`. Returns the next character.
static int32_t note_question(TSLexer *lexer, Questions *questions, bool spaced) {
  bool line_end = false;
  while (is_blank(lexer->lookahead) || lexer->lookahead == '/') {
    line_end = line_end || lexer->lookahead == '\n';
    if (lexer->lookahead != '/') {
      next(lexer);
    } else if (pass_space(lexer)) {
      return '/';
    }
  }
  int32_t c = lexer->lookahead;
  if (c == '[' && !line_end && !spaced) return c;
  bool doubtful = line_end || (!spaced && (c == '-' || c == '(' || c == '{'));
  bool word = is_word(c);
  if (!starts_expression(lexer)) return line_end ? 0 : c;
  // `a?` at the end of an entry, followed by the next entry.
  if (word && line_end && !pass_space(lexer) && lexer->lookahead == ':') return 0;
  if (questions->count < MOST_QUESTIONS) questions->strong[questions->count++] = !doubtful;
  return line_end ? 0 : c;
}

// Removes the `?` that matches a `:`; returns true if it is the first one.
static bool take_question(Questions *questions) {
  if (questions->count == 0) return false;
  unsigned taken = questions->count - 1;
  for (unsigned at = questions->count; at > 0; at--) {
    if (questions->strong[at - 1]) {
      taken = at - 1;
      break;
    }
  }
  for (unsigned at = taken + 1; at < questions->count; at++) questions->strong[at - 1] = questions->strong[at];
  questions->count--;
  return taken == 0;
}

// Returns whether the first `?` has a matching `:` in the rest of its statement or entry.
static bool has_colon(TSLexer *lexer, Questions *questions) {
  if (questions->count == 0) return false;
  unsigned depth = 0;
  // The last non-whitespace character.
  int32_t last = 'a';
  bool spaced = false;
  for (unsigned steps = 0; steps < FARTHEST && !lexer->eof(lexer); steps++) {
    int32_t c = lexer->lookahead;
    if (c == '\n' && depth == 0 && strchr("+-*/%<=&|:?", (char)last) == NULL) {
      if (!joins(lexer, pass_space(lexer))) return false;
      last = 'a';
      continue;
    }
    if (is_blank(c)) {
      spaced = true;
      next(lexer);
      continue;
    }
    if (c == '/') {
      if (pass_space(lexer)) last = '/';
      continue;
    }
    if (is_word(c)) {
      char word[4];
      pass_word(lexer, word, sizeof word);
      if (strcmp(word, "r") == 0 && lexer->lookahead == '"') {
        next(lexer);
        while (!lexer->eof(lexer) && lexer->lookahead != '"' && lexer->lookahead != '\n') next(lexer);
        next(lexer);
      }
    } else {
      next(lexer);
      switch (c) {
        case '{': case '(': case '[':
          depth++;
          break;
        case '}': case ')': case ']':
          if (depth == 0) return false;
          depth--;
          break;
        case '"':
          pass_string(lexer);
          break;
        case ',': case ';':
          if (depth == 0) return false;
          break;
        case ':':
          if (depth == 0 && take_question(questions)) return true;
          break;
        case '?':
          if (lexer->lookahead == '?') {
            next(lexer);
          } else if (depth == 0 && lexer->lookahead != '.') {
            note_question(lexer, questions, spaced);
            if (questions->count == MOST_QUESTIONS) return false;
          }
          break;
        default:
          break;
      }
    }
    spaced = false;
    last = c < 128 ? c : 'a';
  }
  return false;
}

// Classifies the `?` that is the lookahead.
static bool scan_question(TSLexer *lexer, const bool *valid, bool spaced) {
  next(lexer);
  lexer->mark_end(lexer);
  if (lexer->lookahead == '.' || lexer->lookahead == '?') return false;
  Questions questions = {.count = 0};
  int32_t behind = note_question(lexer, &questions, spaced);
  enum Token token = has_colon(lexer, &questions) ? TERNARY : behind == '[' ? OPTIONAL_INDEX : PROPAGATE;
  lexer->result_symbol = token;
  return valid[token];
}

// Returns whether the consumed `<` opens type arguments: those of a call, as in `f<T>(x)`, or of a type that is an argument, as
// in `schema_of(list<T>)` and `schema_of(list<T> | nil)`.
static bool scan_type_arguments(TSLexer *lexer) {
  next(lexer);
  lexer->mark_end(lexer);
  lexer->result_symbol = TYPE_ARGUMENTS;
  char open[DEEPEST] = {'<'};
  unsigned depth = 1;
  // `expected`: a type is required here, otherwise it may end here; `name`: type arguments may follow.
  bool expected = true, name = false;
  for (unsigned steps = 0; steps < FARTHEST; steps++) {
    bool line = false;
    while (is_blank(lexer->lookahead) || lexer->lookahead == '/') {
      line = line || lexer->lookahead == '\n';
      if (pass_space(lexer)) return false;
    }
    int32_t c = lexer->lookahead;
    char inside = open[depth - 1];
    if (lexer->eof(lexer)) return false;
    if (is_word(c) || (c == '-' && expected)) {
      // The next field of a shape needs no comma; other types must begin on a new line.
      if (inside == ':' && !expected) {
        open[depth - 1] = inside = '{';
      } else if (!expected && (!line || inside == '[')) {
        return false;
      }
      if (c == '-') next(lexer);
      char word[4];
      pass_word(lexer, word, sizeof word);
      expected = false;
      name = c != '-';
      bool function = strcmp(word, "fn") == 0 && lexer->lookahead == '(';
      if (inside == '{') {
        if (lexer->lookahead == '?') next(lexer);
        if (pass_space(lexer) || lexer->lookahead != ':') return false;
        next(lexer);
        // The type of the field is scanned like an element of a list.
        open[depth - 1] = ':';
        expected = true;
      } else if (function) {
        if (depth == DEEPEST) return false;
        next(lexer);
        open[depth++] = '(';
        expected = true;
      }
      continue;
    }
    if (inside == ':' && !expected && (c == ',' || c == '}')) open[depth - 1] = inside = '{';
    next(lexer);
    switch (c) {
      case '"':
        if (!expected) return false;
        pass_string(lexer);
        expected = false;
        break;
      case '[': case '{':
        if (!expected || depth == DEEPEST) return false;
        open[depth++] = (char)c;
        break;
      case '<':
        if (!name || depth == DEEPEST) return false;
        open[depth++] = '<';
        expected = true;
        break;
      case '|':
        if (expected) return false;
        expected = true;
        break;
      case ',':
        if (expected || inside == '[') return false;
        expected = true;
        break;
      case ')':
        if (inside != '(' || pass_space(lexer) || lexer->lookahead != '-') return false;
        next(lexer);
        if (lexer->lookahead != '>') return false;
        next(lexer);
        depth--;
        expected = true;
        break;
      case ']':
        if (inside != '[' || expected) return false;
        depth--;
        break;
      case '}':
        if (inside != '{') return false;
        depth--;
        expected = false;
        break;
      case '>':
        if (inside != '<') return false;
        if (--depth == 0) {
          while (lexer->lookahead == ' ' || lexer->lookahead == '\t') next(lexer);
          if (lexer->lookahead == '|') {
            next(lexer);
            return lexer->lookahead != '|' && lexer->lookahead != '>';
          }
          // No expression ends with `>`: before `)`, it is a type as an argument.
          return lexer->lookahead == '(' || lexer->lookahead == ')';
        }
        expected = false;
        break;
      default:
        return false;
    }
    name = false;
  }
  return false;
}

static bool scan_content(TSLexer *lexer, bool triple) {
  bool any = false;
  for (;;) {
    lexer->mark_end(lexer);
    if (lexer->eof(lexer)) break;
    int32_t c = lexer->lookahead;
    if (c == '$') {
      next(lexer);
      if (lexer->lookahead == '{') break;
    } else if (c == '"') {
      if (!triple) break;
      next(lexer);
      if (lexer->lookahead == '"') {
        next(lexer);
        if (lexer->lookahead == '"') break;
      }
    } else if (!triple && (c == '\\' || c == '\n')) {
      break;
    } else {
      next(lexer);
    }
    any = true;
  }
  lexer->result_symbol = triple ? MULTILINE_CONTENT : STRING_CONTENT;
  return any;
}

bool tree_sitter_harn_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  Scanner *scanner = payload;
  // During error recovery all tokens are valid: then the grammar handles the content of strings.
  bool lost = valid[STRING_CONTENT] && valid[MULTILINE_CONTENT];
  if (!lost && (valid[STRING_CONTENT] || valid[MULTILINE_CONTENT])) {
    return scan_content(lexer, valid[MULTILINE_CONTENT]);
  }
  if (scanner->pending && valid[NEWLINE]) {
    scanner->pending = false;
    lexer->mark_end(lexer);
    lexer->result_symbol = NEWLINE;
    return true;
  }
  bool line = false, spaced = false, commented = false;
  while (is_blank(lexer->lookahead)) {
    spaced = true;
    line = line || lexer->lookahead == '\n';
    lexer->advance(lexer, true);
  }
  lexer->mark_end(lexer);
  bool slash = false;
  if (lexer->lookahead == '/') {
    next(lexer);
    if (lexer->lookahead == '*') {
      next(lexer);
      pass_block_comment(lexer);
      lexer->mark_end(lexer);
      lexer->result_symbol = BLOCK_COMMENT;
      scanner->pending = line && valid[NEWLINE] && !joins(lexer, pass_space(lexer));
      return true;
    }
    if (!line || !valid[NEWLINE]) return false;
    if (lexer->lookahead == '/') {
      commented = true;
      pass_line(lexer);
      slash = pass_space(lexer);
    } else {
      slash = true;
    }
  }
  if (line && valid[NEWLINE]) {
    // The separator has zero width: it is located before the next token.
    lexer->result_symbol = NEWLINE;
    bool question = lexer->lookahead == '?' && valid[PROPAGATE];
    bool types = lexer->lookahead == '<' && valid[TYPE_ARGUMENTS];
    if (commented || (!question && !types)) return !joins(lexer, slash);
  }
  if (lexer->lookahead == '<' && valid[TYPE_ARGUMENTS]) return scan_type_arguments(lexer);
  if (lexer->lookahead == '?' && valid[PROPAGATE]) return scan_question(lexer, valid, spaced);
  if (lexer->lookahead == '{' && (valid[CLOSURE_OPEN] || valid[STRUCT_OPEN])) return scan_open(lexer, valid);
  return false;
}
