// Signals that end a program, held back while something must be cleaned up first.
#pragma once

#include <signal.h>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline hosts {

// From open() to destruction SIGHUP, SIGINT and SIGTERM of this thread wait, and fd() is readable once one has come;
// then they have their effect. Before other threads exist.
class HeldSignals {
 public:
  static base::Result<HeldSignals> open();
  ~HeldSignals();
  HeldSignals(HeldSignals&&) = default;
  HeldSignals& operator=(HeldSignals&&) = delete;

  int fd() const { return fd_.get(); }

 private:
  HeldSignals(base::UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}

  base::UniqueFd fd_;  // invalid: moved away
  sigset_t before_;
};

}  // namespace muster::cli::hosts
