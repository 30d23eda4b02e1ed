// Parses the commands of PMI-1, the "simple" protocol that MPICH and its relatives speak over PMI_FD.
// A command is a line of key=value words, such as "cmd=put kvsname=K key=A value=V". A value runs to the end of the
// line. A spawn has many lines, from "mcmd=spawn" to "endcmd".
// Source: observation of MPICH 4.0.2's client.
//
// Thread: one. Plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline pmi {

inline constexpr std::size_t kMaxPmiLine = 8 << 10;  // MPICH's client writes at most 1 KiB

struct PmiCommand {
  std::string name;                                        // the value of cmd= or mcmd=
  std::vector<std::pair<std::string, std::string>> words;  // the other words; empty for a spawn

  // Returns the value of `key`. Empty if the key is missing.
  std::string_view word(std::string_view key) const;
};

// Parses a line without its newline. INVALID_ARGUMENT: it does not begin with a command.
base::Result<PmiCommand> parse_pmi_line(std::string_view line);

// Splits the bytes that one rank sends into commands.
class PmiReader {
 public:
  void append(std::string_view bytes) { rest_.append(bytes); }
  // nullopt if no whole command has arrived yet. INVALID_ARGUMENT: this is not PMI, and nothing more can be read.
  base::Result<std::optional<PmiCommand>> next();

 private:
  base::Result<std::optional<std::string_view>> next_line();

  std::string rest_;
  std::size_t begin_ = 0;  // offset of the next line in `rest_`
  bool is_in_spawn_ = false;
};

}  // namespace muster::agent::pmi
