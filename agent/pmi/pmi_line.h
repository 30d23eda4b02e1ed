// What a rank says in PMI-1, the "simple" protocol of MPICH and its relatives over PMI_FD: lines of key=value words,
// "cmd=put kvsname=K key=A value=V", where a value runs to the end of the line; spawn is many lines, "mcmd=spawn" to
// "endcmd". Written from observation of MPICH 4.0.2's client.
//
// Plain values; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline pmi {

inline constexpr std::size_t kMaxPmiLine = 8 << 10;  // MPICH's client makes at most 1 KiB

struct PmiCommand {
  std::string name;                                        // of cmd= or mcmd=
  std::vector<std::pair<std::string, std::string>> words;  // the others; of a spawn none

  // Empty: not there.
  std::string_view word(std::string_view key) const;
};

// A line without its end. INVALID_ARGUMENT: it does not begin with a command.
base::Result<PmiCommand> parse_pmi_line(std::string_view line);

// Cuts what one rank sends into commands.
class PmiReader {
 public:
  void append(std::string_view bytes) { rest_.append(bytes); }
  // nullopt: no whole one yet. INVALID_ARGUMENT: this is no PMI; nothing more can be read then.
  base::Result<std::optional<PmiCommand>> next();

 private:
  base::Result<std::optional<std::string_view>> next_line();

  std::string rest_;
  std::size_t begin_ = 0;  // of the next line in `rest_`
  bool is_in_spawn_ = false;
};

}  // namespace muster::agent::pmi
