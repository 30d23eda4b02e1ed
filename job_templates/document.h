// A template's YAML as a tree. Every piece knows its file, because a template may be merged from several files.
//
// Thread: any; plain values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::job_templates {

struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;
};

// Returns "FILE:LINE:COLUMN".
std::string to_string(const Place& place);

// Returns an error with the text "FILE:LINE:COLUMN: problem".
base::Status error_at(const Place& place, std::string_view problem);

struct Piece {
  enum class Kind { kNull, kText, kList, kMap };
  struct Key {
    std::string text;
    Place place;
  };

  Kind kind = Kind::kNull;
  std::string text;  // kText
  Place place;
  std::vector<Key> keys;     // kMap: one per item
  std::vector<Piece> items;  // kList and kMap, in order

  const Piece* find(std::string_view key) const;  // nullptr if there is no such key, or this is not a map
};

inline constexpr std::size_t kMaxTemplateBytes = 1u << 20;

// An empty document is an empty map. Errors: "FILE:LINE:COLUMN: what is wrong".
base::Result<Piece> parse_document(std::string_view content, const std::string& file_name);

// Puts `over` on top of `under`. Maps are merged key by key. "KEY+" appends a list to the one below. null removes the
// key. Everything else replaces what lies below.
Piece merge(Piece under, const Piece& over);

// Formats YAML that parses to the same tree.
std::string format_document(const Piece& root);

}  // namespace muster::job_templates
