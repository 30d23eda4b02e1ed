// The child's side of the environment scan: raw system calls only, see environ_scan.h.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace muster::agent::inline proc {

enum class ScanRecordKind : int { kMarked, kDone };

// One write each, below PIPE_BUF: never torn.
struct ScanRecord {
  ScanRecordKind kind = ScanRecordKind::kMarked;
  pid_t pid = 0;
  char job_id[16] = {};  // what follows the marker; a longer value is none
  char session_dir[512] = {};
};

struct EnvironReaderPlan {
  const char* marker = nullptr;  // the whole entry, NAME=VALUE; with any_value its beginning, NAME=
  std::size_t marker_size = 0;
  bool any_value = false;
  volatile pid_t* looking_at = nullptr;  // in shared memory: the parent sees where the child hangs
  uid_t uid = 0;                         // processes of others are not opened
  pid_t parent = 0;                      // ends when this is no longer its parent
  pid_t after = 0;                       // processes up to this pid were looked at before
  int output = -1;
  char* buffer = nullptr;  // holds one environment; the rest of a longer one is not read
  std::size_t buffer_size = 0;
  char* names = nullptr;  // holds directory entries
  std::size_t names_size = 0;
  ScanRecord record;  // here and not on the stack: a compiler would clear it there with memset
};

// Signature for fork_bare. Never returns.
int read_environments(void* plan);

}  // namespace muster::agent::proc
