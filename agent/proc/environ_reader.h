// The child's side of the environment scan (environ_scan.h). It makes only raw system calls.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace muster::agent::inline proc {

enum class ScanRecordKind : int { kMarked, kDone };

// The child writes each record with one write, shorter than PIPE_BUF, so that records are never torn.
struct ScanRecord {
  ScanRecordKind kind = ScanRecordKind::kMarked;
  pid_t pid = 0;
  char job_id[16] = {};  // the value after the marker; empty if it does not fit
  char session_dir[512] = {};
};

struct EnvironReaderPlan {
  // The whole entry, NAME=VALUE. With any_value it is only the beginning, NAME=.
  const char* marker = nullptr;
  std::size_t marker_size = 0;
  bool any_value = false;
  // In shared memory, so that the parent sees at which process the child hangs.
  volatile pid_t* current_pid = nullptr;
  uid_t uid = 0;     // processes of other users are not opened
  pid_t parent = 0;  // the child ends when this is no longer its parent
  pid_t after = 0;   // processes up to this pid were read before
  int output = -1;
  char* buffer = nullptr;  // holds one environment; the rest of a longer one is not read
  std::size_t buffer_size = 0;
  char* names = nullptr;  // holds directory entries
  std::size_t names_size = 0;
  // Kept here and not on the stack, because a compiler would clear it there with memset.
  ScanRecord record;
};

// Has the signature of fork_bare's function. Never returns.
int read_environments(void* plan);

}  // namespace muster::agent::proc
