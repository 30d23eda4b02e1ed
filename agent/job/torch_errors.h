// Reads the exceptions of ranks that use torch. A function with torch's @record writes its exception to
// TORCHELASTIC_ERROR_FILE (model/rank_env.h) before the rank ends.
// The launcher gets a line for the first exception of a host, because other ranks mostly fail as a consequence. A
// launcher that asks for the files gets all of them.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Errors: a file that is missing, too large or malformed counts as no file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Pure. Returns the exception that such a file names, like "RuntimeError: CUDA out of memory". nullopt if it names
// none.
std::optional<std::string> parse_torch_error(std::string_view content);

struct TorchError {
  // Like "rank 3 raised KeyError: 7". Empty if the file names no exception, or if an earlier rank got the line.
  std::string line;
  std::string content;  // the bytes of the file, at most 256 KiB; empty if there is no file
};

class TorchErrors {
 public:
  // Reads the error file of a rank. Does nothing if the rank succeeded or Muster stopped it. `shown` is the rank for
  // the line.
  TorchError ended(const std::string& session_dir, const v1::RankExited& exited, int shown);

 private:
  bool has_reported_ = false;
};

}  // namespace muster::agent::job
