#include "agent/pmix/helper_process.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::pmix::helper_process_test {
namespace {

// A stopped process keeps SIGTERM until it goes on, and the agent's loop would wait for it.
TEST(HelperProcess, ReapsAHelperThatIsStopped) {
  const testing_support::TempDir folder;
  auto helper = HelperProcess::start({}, folder.path(), false);
  ASSERT_TRUE(helper.ok()) << helper.status();
  ASSERT_EQ(::kill(helper->pid(), SIGSTOP), 0);
  EXPECT_EQ(helper->reap(), "was ended by signal 9");
  EXPECT_EQ(helper->pid(), 0);
  EXPECT_EQ(helper->reap(), "has ended");
}

}  // namespace
}  // namespace muster::agent::pmix::helper_process_test
