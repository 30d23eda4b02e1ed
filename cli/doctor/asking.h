// What the commands that ask hosts something have in common: a loop, lines on stderr, and a bootstrap that reports into
// them. The bootstrap is declared last, so that its threads end before what they call.
//
//   Asking asking("muster doctor");
//   MUSTER_ASSIGN_OR_RETURN(const auto bootstrap, asking.make_bootstrap(options, environment, {}));
//   …start what calls asking.loop.stop() at its end; then
//   asking.run_blocking();
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/loop.h"
#include "base/status.h"
#include "cli/options/options.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/terminal.h"

namespace muster::cli::inline doctor {

// A host that goes away must not end this process; who reads our own output may, as with other programs.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  void (*before_)(int);
};

struct Asking {
  using OnFailure = std::function<void(const launcherd::BootstrapTarget&, launcherd::FailureKind)>;

  // `program` begins the lines on stderr.
  explicit Asking(const std::string& program);

  // It borrows `notices`. The error: this machine cannot ask anybody (its agent program is missing, no thread).
  // `on_failure` as in BootstrapOptions.
  base::Result<std::unique_ptr<launcherd::Bootstrap>> make_bootstrap(const HvdrunOptions& options,
                                                                     const base::Environment& environment,
                                                                     OnFailure on_failure);

  // Until the loop is stopped; then the last lines are written, and the status line is gone.
  void run_blocking();

  NoSigpipe no_sigpipe;
  base::Loop loop;
  launcherd::Terminal terminal;
  launcherd::NoticeWriter notices;
};

}  // namespace muster::cli::doctor
