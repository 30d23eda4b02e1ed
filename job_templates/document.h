// A template's YAML as a tree in which every piece knows the file that it comes from, since one template may be put
// together from several. Plain values; any thread.
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

// "FILE:LINE:COLUMN".
std::string to_string(const Place& place);

// "FILE:LINE:COLUMN: problem".
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
  std::vector<Key> keys;     // kMap: one for each item
  std::vector<Piece> items;  // kList and kMap, in order

  const Piece* find(std::string_view key) const;  // nullptr: no such key, or this is no map
};

inline constexpr std::size_t kMaxTemplateBytes = 1u << 20;

// An empty document is an empty map. Errors: "FILE:LINE:COLUMN: what is wrong".
base::Result<Piece> parse_document(std::string_view content, const std::string& file_name);

// `over` on top of `under`: maps are merged key by key; "KEY+" adds a list to the one below; null takes the key away;
// all else replaces.
Piece merge(Piece under, const Piece& over);

// As YAML that parses to the same tree.
std::string format_document(const Piece& root);

}  // namespace muster::job_templates
