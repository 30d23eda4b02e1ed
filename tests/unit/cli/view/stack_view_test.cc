#include "cli/view/stack_view.h"

#include <gtest/gtest.h>

#include "cli/help/man_page.h"
#include "cli/verbs/stacks.h"

namespace muster::cli::stack_view_test {
namespace {

v1::ProcessStack hanging() {
  v1::ProcessStack process;
  process.set_rank(3);
  process.set_host("n2");
  process.set_pid(4242);
  process.set_command("train\x1b[1m");
  v1::ThreadStack& main = *process.add_threads();
  main.add_tids(4242);
  main.set_name("train");
  main.set_state("S");
  main.set_wait_channel("futex_wait_queue");
  v1::StackFrame& known = *main.add_user();
  known.set_address(0x1000);
  known.set_function("wait_for(int)");
  known.set_module("/usr/lib/libwait.so.1");
  main.add_user()->set_address(0x2000);
  v1::ThreadStack& pool = *process.add_threads();
  pool.add_tids(4243);
  pool.add_tids(4244);
  pool.set_name("pool");
  pool.set_state("D");
  pool.add_kernel("nfs_wait");
  pool.set_problem("no registers");
  return process;
}

TEST(StackView, AProcessAsText) {
  EXPECT_EQ(format_process_stack(hanging()),
            "rank 3 on n2: pid 4242 (train\\x1b[1m)\n"
            "  thread 4242 (train): sleeping in futex_wait_queue\n"
            "      #0   wait_for(int)  [libwait.so.1]\n"
            "      #1   0x2000\n"
            "  2 threads (pool): 4243, 4244: not to be interrupted\n"
            "      kernel nfs_wait\n"
            "      (no registers)\n");
}

TEST(StackView, AHostThatSaysNothing) {
  v1::ProcessStack silent;
  silent.set_rank(-1);
  silent.set_host("n3");
  silent.set_problem("n3 has not answered within 10 s");
  EXPECT_EQ(format_process_stack(silent), "n3 has not answered within 10 s\n");
}

TEST(StackView, Json) {
  v1::ProcessStack process;
  process.set_rank(1);
  process.set_host("n1");
  process.set_pid(5);
  EXPECT_EQ(process_stack_json(process), R"({"rank":1,"host":"n1","pid":"5","command":"","threads":[],"problem":""})"
                                         "\n");
}

TEST(StacksManPage, OnlyWhoReadsSettingsHasTheirFiles) {
  EXPECT_EQ(man_page(stacks_doc()).find(".SH FILES"), std::string::npos);
  EXPECT_EQ(man_page(stacks_doc()).find(".SH NOTES"), std::string::npos);
}

}  // namespace
}  // namespace muster::cli::stack_view_test
