// All of json.h. Read parse_json() at the end first, then JsonReader::value().
#include "base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/strings.h"

namespace muster::base {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto tail = [code](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.append({static_cast<char>(0xc0 | code >> 6), tail(0)});
  } else if (code < 0x10000) {
    text.append({static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)});
  } else {
    text.append({static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)});
  }
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const JsonLimits& limits)
      : whole_(text), rest_(text), limits_(limits), left_(limits.values) {}

  Status value(JsonNode& node, int depth) {
    skip_blanks();
    if (left_ == 0) return resource_exhausted("JSON: more than {} values", limits_.values);
    --left_;
    if (rest_.empty()) return bad("a value is missing");
    switch (rest_.front()) {
      case '{':
      case '[':
        return container(node, depth);
      case '"':
        node.kind = JsonNode::Kind::kString;
        return string(node.text);
      default:
        return is_digit(rest_.front()) || rest_.front() == '-' ? number(node) : word(node);
    }
  }
  Status end() {
    skip_blanks();
    return rest_.empty() ? ok_status() : bad("more text follows the document");
  }

 private:
  Status bad(std::string_view why) const {
    return invalid_argument("JSON: {} at byte {}", why, whole_.size() - rest_.size());
  }
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Status container(JsonNode& node, int depth) {
    if (depth >= limits_.depth) return resource_exhausted("JSON: deeper than {} levels", limits_.depth);
    const bool is_object = take('{');
    if (!is_object) take('[');
    const char close = is_object ? '}' : ']';
    node.kind = is_object ? JsonNode::Kind::kObject : JsonNode::Kind::kArray;
    skip_blanks();
    if (take(close)) return ok_status();
    do {
      if (is_object) MUSTER_RETURN_IF_ERROR(key(node));
      MUSTER_RETURN_IF_ERROR(value(node.items.emplace_back(), depth + 1));
      skip_blanks();
    } while (take(','));
    return take(close) ? ok_status() : bad("a comma or the end of an object or array is missing");
  }

  Status key(JsonNode& node) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != '"') return bad("a key is missing");
    MUSTER_RETURN_IF_ERROR(string(node.keys.emplace_back()));
    skip_blanks();
    return take(':') ? ok_status() : bad("a colon is missing");
  }

  Status string(std::string& text) {
    take('"');
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (static_cast<unsigned char>(c) < 0x20) return bad("a control character is in a text");
      rest_.remove_prefix(1);
      if (c == '"') return ok_status();
      if (c == '\\') {
        MUSTER_RETURN_IF_ERROR(escape(text));
      } else {
        text.push_back(c);
      }
    }
    return bad("a text does not end");
  }

  Status escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (rest_.empty()) return bad("a text does not end");
    const char name = rest_.front();
    rest_.remove_prefix(1);
    if (name == 'u') return unicode(text);
    const std::size_t at = kNames.find(name);
    if (at == std::string_view::npos) return bad("an escape is unknown");
    text.push_back(kValues[at]);
    return ok_status();
  }

  // Half of a surrogate pair becomes U+FFFD.
  Status unicode(std::string& text) {
    constexpr std::uint32_t kReplacement = 0xfffd;
    auto code = four_digits();
    if (!code) return bad("an escape is cut");
    if (*code >= 0xd800 && *code < 0xdc00 && rest_.starts_with("\\u")) {
      const std::string_view before = rest_;
      rest_.remove_prefix(2);
      const auto low = four_digits();
      if (!low) return bad("an escape is cut");
      if (*low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
      } else {
        rest_ = before;
      }
    }
    append_utf8(*code >= 0xd800 && *code < 0xe000 ? kReplacement : *code, text);
    return ok_status();
  }

  std::optional<std::uint32_t> four_digits() {
    constexpr std::size_t kDigits = 4;
    std::uint32_t code = 0;
    if (rest_.size() < kDigits) return std::nullopt;
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + kDigits, code, 16);
    if (failure != std::errc() || end != rest_.data() + kDigits) return std::nullopt;
    rest_.remove_prefix(kDigits);
    return code;
  }

  bool skip_digits() {
    const std::size_t count =
        std::min(static_cast<std::size_t>(std::ranges::find_if_not(rest_, is_digit) - rest_.begin()), rest_.size());
    rest_.remove_prefix(count);
    return count > 0;
  }

  Status number(JsonNode& node) {
    const std::string_view begin = rest_;
    take('-');
    const bool is_zero = take('0');
    if (!is_zero && !skip_digits()) return bad("a number has no digits");
    if (take('.') && !skip_digits()) return bad("a number has no digits behind its point");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!skip_digits()) return bad("a number has no exponent");
    }
    node.kind = JsonNode::Kind::kNumber;
    node.text = begin.substr(0, begin.size() - rest_.size());
    return ok_status();
  }

  Status word(JsonNode& node) {
    for (const std::string_view word : {"true", "false", "null"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      node.kind = word == "null" ? JsonNode::Kind::kNull : JsonNode::Kind::kBool;
      node.is_true = word == "true";
      return ok_status();
    }
    return bad("a value is unknown");
  }

  const std::string_view whole_;
  std::string_view rest_;
  const JsonLimits limits_;
  std::size_t left_;
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::string_view JsonNode::text_at(std::string_view key) const {
  const JsonNode* const node = find(key);
  return node == nullptr || node->kind != Kind::kString ? std::string_view() : std::string_view(node->text);
}

const std::vector<JsonNode>& JsonNode::array_at(std::string_view key) const {
  static const std::vector<JsonNode> kNone;
  const JsonNode* const node = find(key);
  return node == nullptr || node->kind != Kind::kArray ? kNone : node->items;
}

std::optional<std::int64_t> JsonNode::whole_number() const {
  std::int64_t number = 0;
  if (kind != Kind::kNumber) return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> JsonNode::number_at(std::string_view key) const {
  const JsonNode* const node = find(key);
  return node == nullptr ? std::nullopt : node->whole_number();
}

bool JsonNode::is_true_at(std::string_view key) const {
  const JsonNode* const node = find(key);
  return node != nullptr && node->kind == Kind::kBool && node->is_true;
}

Result<JsonNode> parse_json(std::string_view text, const JsonLimits& limits) {
  JsonReader reader(text, limits);
  JsonNode node;
  MUSTER_RETURN_IF_ERROR(reader.value(node, 0));
  MUSTER_RETURN_IF_ERROR(reader.end());
  return node;
}

std::string json_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : valid_utf8(text)) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace muster::base
