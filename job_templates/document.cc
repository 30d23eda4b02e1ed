// All of document.h. Read merge_key() for the rules of merging.
// The functions from is_plain() to format_into() only serve format_document().
#include "job_templates/document.h"

#include <algorithm>

#include "base/strings.h"
#include "base/yaml.h"

namespace muster::job_templates {
namespace {

using base::YamlNode;
using File = std::shared_ptr<const std::string>;

Piece to_piece(const YamlNode& node, const File& file) {
  Piece piece;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      break;
    case YamlNode::Kind::kScalar:
      piece.kind = Piece::Kind::kText;
      break;
    case YamlNode::Kind::kList:
      piece.kind = Piece::Kind::kList;
      break;
    case YamlNode::Kind::kMap:
      piece.kind = Piece::Kind::kMap;
      break;
  }
  piece.text = node.text;
  piece.place = {file, node.line, node.column};
  for (const YamlNode::Key& key : node.keys) piece.keys.push_back({key.text, {file, key.line, key.column}});
  for (const YamlNode& item : node.items) piece.items.push_back(to_piece(item, file));
  return piece;
}

void merge_key(Piece& under, const Piece::Key& key, const Piece& value) {
  const bool adds = key.text.ends_with('+');
  const std::string name = adds ? key.text.substr(0, key.text.size() - 1) : key.text;
  const auto found = std::ranges::find(under.keys, name, &Piece::Key::text);
  const bool is_there = found != under.keys.end();
  const auto at = found - under.keys.begin();
  if (value.kind == Piece::Kind::kNull) {
    if (!is_there) return;
    under.items.erase(under.items.begin() + at);
    under.keys.erase(found);
    return;
  }
  if (!is_there) {
    under.keys.push_back({name, key.place});
    Piece none;  // merging into nothing resolves "KEY+" and null inside `value`
    none.kind = value.kind;
    under.items.push_back(merge(std::move(none), value));
    return;
  }
  Piece& old = under.items[static_cast<std::size_t>(at)];
  if (adds && old.kind == Piece::Kind::kList && value.kind == Piece::Kind::kList) {
    old.items.insert(old.items.end(), value.items.begin(), value.items.end());
  } else {
    old = merge(std::move(old), value);
  }
}

bool is_plain(std::string_view text) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=, ()$:";
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./$";
  if (text.empty() || text.find_first_not_of(kSafe) != std::string_view::npos) return false;
  if (kFirst.find(text.front()) == std::string_view::npos || text.back() == ' ' || text.back() == ':') return false;
  if (text.find(": ") != std::string_view::npos) return false;
  return text != "null" && text != "Null" && text != "NULL";
}

// Returns whether `text` can be written as a YAML block (|).
bool is_block(std::string_view text) {
  if (text.find('\n') == std::string_view::npos || !text.ends_with('\n') || text.ends_with("\n\n")) return false;
  if (text.front() == ' ' || text.front() == '\n') return false;
  return std::ranges::all_of(text, [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; });
}

std::string yaml_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string scalar(std::string_view text, const std::string& indent) {
  if (is_plain(text)) return std::string(text);
  if (!is_block(text)) return yaml_quoted(text);
  std::string result = "|";
  text.remove_suffix(1);
  for (const std::string_view line : base::split(text, '\n')) {
    result += line.empty() ? "\n" : fmt::format("\n{}{}", indent, line);
  }
  return result;
}

void format_into(const Piece& piece, const std::string& indent, std::string& text) {
  const std::string deeper = indent + "  ";
  for (std::size_t i = 0; i < piece.items.size(); ++i) {
    const Piece& item = piece.items[i];
    const std::string head = piece.kind == Piece::Kind::kMap ? scalar(piece.keys[i].text, "") + ":" : "-";
    text += indent + head;
    if (item.kind == Piece::Kind::kNull) {
      text += " ~\n";
    } else if (item.kind == Piece::Kind::kText) {
      text += " " + scalar(item.text, deeper) + "\n";
    } else if (item.items.empty()) {
      text += item.kind == Piece::Kind::kMap ? " {}\n" : " []\n";
    } else {
      text += "\n";
      format_into(item, deeper, text);
    }
  }
}

}  // namespace

std::string to_string(const Place& place) {
  return fmt::format("{}:{}:{}", place.file ? *place.file : "", place.line, place.column);
}

base::Status error_at(const Place& place, std::string_view problem) {
  return base::invalid_argument("{}: {}", to_string(place), problem);
}

const Piece* Piece::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &Key::text);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

base::Result<Piece> parse_document(std::string_view content, const std::string& file_name) {
  MUSTER_ASSIGN_OR_RETURN(const YamlNode root, base::parse_yaml(content, file_name));
  Piece piece = to_piece(root, std::make_shared<const std::string>(file_name));
  if (piece.kind == Piece::Kind::kNull) piece.kind = Piece::Kind::kMap;
  if (piece.kind != Piece::Kind::kMap) {
    return error_at(piece.place, "keys are expected, as in 'scheduler: slurm' and 'launch:' below it");
  }
  return piece;
}

Piece merge(Piece under, const Piece& over) {
  if (over.kind != Piece::Kind::kMap || under.kind != Piece::Kind::kMap) {
    if (over.kind != Piece::Kind::kMap) return over;
    under = Piece{.kind = Piece::Kind::kMap, .text = {}, .place = over.place, .keys = {}, .items = {}};
  }
  for (std::size_t i = 0; i < over.items.size(); ++i) merge_key(under, over.keys[i], over.items[i]);
  return under;
}

std::string format_document(const Piece& root) {
  std::string text;
  format_into(root, "", text);
  return text.empty() ? "{}\n" : text;
}

}  // namespace muster::job_templates
