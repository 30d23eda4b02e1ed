// A running muster-gpus: a child of this process, of the same user, and of no job. The destructor kills it.
// A helper that hangs in the kernel cannot be reaped at once. An owner with a loop hands such a helper to
// KilledHelpers.
//
// Thread: single-threaded. Only survey_blocking() blocks, and the destructor for at most kEndPatience.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpus/report.h"
#include "agent/process/message_socket.h"
#include "base/env.h"
#include "base/status.h"

namespace muster::agent::inline gpus {

// Time limit for the library's first start, which may have to wake the GPUs, and for each later answer.
inline constexpr std::chrono::milliseconds kSurveyPatience{10'000};

// True if the host has a driver of NVIDIA's, so that starting a process for its library makes sense. `root` is put
// before all paths.
bool has_nvidia_driver(const std::string& root = "");

class Helper {
 public:
  // Starts muster-gpus from memory; nothing is written to a disk. Of the login's environment it gets only
  // LD_LIBRARY_PATH, by which it finds the library.
  static base::Result<Helper> start(const base::Environment& login_environment);
  ~Helper() { end(); }
  Helper(Helper&& other) noexcept;
  Helper& operator=(Helper&& other) noexcept;

  pid_t pid() const { return pid_; }
  int fd() const { return socket_.fd(); }  // readable if receive() has something to return

  // UNAVAILABLE: the helper has ended.
  base::Status ask(const Question& question);
  // nullopt if no whole answer has arrived yet. After an error the helper is useless: it has ended, or its message
  // cannot be read.
  base::Result<std::optional<GpuReport>> receive();

  // Kills the helper without waiting; afterwards it is useless. Returns the pid of a child that the caller must reap.
  pid_t kill_unreaped();

 private:
  Helper(pid_t pid, base::UniqueFd socket) : pid_(pid), socket_(std::move(socket), kMaxMessage) {}
  void end();

  pid_t pid_ = 0;
  MessageSocket socket_;
};

// Starts a helper, asks it, and ends it. DEADLINE_EXCEEDED: no answer within `patience`. The helper then moves to
// `hung`, unless `hung` is nullptr.
base::Result<GpuReport> survey_blocking(const base::Environment& login_environment,
                                        std::chrono::milliseconds patience = kSurveyPatience,
                                        std::optional<Helper>* hung = nullptr, const Question& question = {});

// Returns one sentence for the user about a driver that hangs.
std::string no_answer(const Question& question, std::chrono::milliseconds patience);

}  // namespace muster::agent::gpus
