// A running muster-gpus: our child, of the same user, not of any job. It is killed with this object. One that hangs in
// the kernel cannot be reaped then: whoever has a loop gives it to KilledHelpers.
//
// Single-threaded. Nothing here blocks but survey_blocking(), and the destructor for kEndPatience at most.
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

// For the library's first start, which may have to wake the GPUs, and for any answer after it.
inline constexpr std::chrono::milliseconds kSurveyPatience{10'000};

// A driver of NVIDIA's is here, so that its library is worth a process. `root` goes before all paths.
bool has_nvidia_driver(const std::string& root = "");

class Helper {
 public:
  // From memory: nothing is written to a disk. Of the login's environment it gets LD_LIBRARY_PATH, by which the library
  // is found.
  static base::Result<Helper> start(const base::Environment& login_environment);
  ~Helper() { end(); }
  Helper(Helper&& other) noexcept;
  Helper& operator=(Helper&& other) noexcept;

  pid_t pid() const { return pid_; }
  int fd() const { return socket_.fd(); }  // readable: receive() has something to say

  // UNAVAILABLE: it has ended.
  base::Status ask(const Question& question);
  // nullopt: no whole answer yet. An error: it has ended, or what it says cannot be read; it is of no more use.
  base::Result<std::optional<GpuReport>> receive();

  // Kills it without waiting, and is of no more use. The number of a child that is to be reaped.
  pid_t kill_unreaped();

 private:
  Helper(pid_t pid, base::UniqueFd socket) : pid_(pid), socket_(std::move(socket), kMaxMessage) {}
  void end();

  pid_t pid_ = 0;
  MessageSocket socket_;
};

// Starts one, asks it, ends it. DEADLINE_EXCEEDED: no answer within `patience`; `hung`, if given, is then the one that
// hangs.
base::Result<GpuReport> survey_blocking(const base::Environment& login_environment,
                                        std::chrono::milliseconds patience = kSurveyPatience,
                                        std::optional<Helper>* hung = nullptr, const Question& question = {});

// One sentence on a driver that hangs, for a human.
std::string no_answer(const Question& question, std::chrono::milliseconds patience);

}  // namespace muster::agent::gpus
