#include "cli/view/launcher_process.h"

#include <signal.h>

#include <gtest/gtest.h>

namespace muster::cli::launcher_process_test {
namespace {

TEST(LauncherProcess, BlocksSignalsAndIgnoresSigpipe) {
  sigset_t before;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  const auto prepared = prepare_launcher({SIGUSR1}, 1);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, &before, &now);
  EXPECT_EQ(::sigismember(&now, SIGUSR1), 1);
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace muster::cli::launcher_process_test
