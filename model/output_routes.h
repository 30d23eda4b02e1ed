// Says which ranks' output goes to the console and to files: torchrun's --redirects, --tee, --local-ranks-filter and
// --duplicate-stdout-filters. Plain values, pure functions.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

// Numbered as in torch; a set is the sum of its streams.
using StreamSet = unsigned;
inline constexpr StreamSet kStdout = 1;
inline constexpr StreamSet kStderr = 2;

// Streams by local rank. "3" means both streams of every rank. "0:1,1:2" means stdout of local rank 0, stderr of local
// rank 1, and nothing of the others.
struct StreamMap {
  StreamSet of_others = 0;
  std::map<int, StreamSet> of_ranks{};

  StreamSet of(int local_rank) const;
  bool is_empty() const;  // true if it selects no stream of any rank

  bool operator==(const StreamMap&) const = default;
};

// An error is one sentence that begins with "must be …". The caller adds the option's name.
base::Result<StreamMap> parse_stream_map(std::string_view text);
base::Result<std::set<int>> parse_local_ranks(std::string_view text);  // "0,2"

struct OutputRoutes {
  StreamMap hidden{};                               // not shown on the console
  StreamMap files{.of_others = kStdout | kStderr};  // applies only if there are files
  std::optional<std::set<int>> shown_ranks{};       // local ranks on the console; nullopt means all
  // For each stream (stdout, stderr), console lines that contain one of these words also go to one more file. Empty
  // means no such file.
  std::array<std::vector<std::string>, 2> filters{};

  StreamSet console(int local_rank) const;
  bool has_filters() const { return !filters[0].empty() || !filters[1].empty(); }
  bool shows_all() const { return hidden.is_empty() && !shown_ranks; }
};

}  // namespace muster::model
