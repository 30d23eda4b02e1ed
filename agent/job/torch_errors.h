// Exceptions of ranks that use torch. A function with torch's @record writes its exception to TORCHELASTIC_ERROR_FILE
// (model/rank_env.h) before the rank ends. The launcher gets a line for the first one of a host: other ranks mostly
// fail because of it. A launcher that wants the files gets all of them.
//
// Loop thread only; owned by the job's session. Errors: a file that is missing, too large or of another form counts as
// none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Pure. The exception in the words of such a file, "RuntimeError: CUDA out of memory"; nullopt if there is none.
std::optional<std::string> parse_torch_error(std::string_view content);

struct TorchError {
  std::string line;     // "rank 3 raised KeyError: 7"; empty: it names no exception, or an earlier rank had the line
  std::string content;  // of the file, at most 256 KiB; empty: there is none
};

class TorchErrors {
 public:
  // Reads the file of a rank that has ended by itself with a failure.
  TorchError ended(const std::string& session_dir, const v1::RankExited& exited);

 private:
  bool has_reported_ = false;
};

}  // namespace muster::agent::job
