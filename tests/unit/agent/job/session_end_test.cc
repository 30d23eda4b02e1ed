#include "agent/job/session_end.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/scripted_gpu.h"
#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::session_end_test {
namespace {

using testing::run_until;

class SessionEndTest : public testing::ScriptedGpuFixture {
 protected:
  SessionEndTest() { host_.seen = gpus::GpuReport{.driver = "550", .gpus = {{.uuid = "GPU-a"}}}; }

  // A rank that had a GPU has ended, and the driver does not release its memory.
  void hold_memory() {
    const pid_t pid = gone();
    dir_.write("script", fmt::format("driver 550\ngpu 0000:1b:00.0 GPU-a 100 0 5 H100\nprocess {} 100\n", pid));
    SpawnRequest request;
    request.env = {"CUDA_VISIBLE_DEVICES=0"};
    gpus_.launch({request});
    gpus_.ended(0, pid);
  }

  JobGpus gpus_{loop_, host_};
  SessionOutput output_{loop_, {.on_tail = [](int, const std::string&) {}, .on_change = [] {}}};
  int changes_ = 0;
  SessionEnd end_{loop_, gpus_, output_, {.on_notice = [](const std::string&) {}, .on_change = [this] { ++changes_; }}};
};

TEST_F(SessionEndTest, HasAllWithAMessageIfNothingIsExpected) {
  EXPECT_FALSE(end_.has_all());
  v1::HostEmpty message;
  message.set_failure("first");
  end_.job_is_empty(message, {});
  EXPECT_TRUE(end_.has_all());
  message.set_failure("second");
  end_.job_is_empty(message, {});
  EXPECT_EQ(end_.message().failure(), "second");
}

TEST_F(SessionEndTest, WaitsForOutput) {
  ASSERT_TRUE(output_.start(testing::unreachable_output(true)).ok());
  end_.job_is_empty({}, {});
  EXPECT_FALSE(end_.has_all());
  output_.finish();
  EXPECT_TRUE(run_until(loop_, [this] { return end_.has_all(); }));
}

TEST_F(SessionEndTest, WaitsForGpusUntilGivenUp) {
  hold_memory();
  end_.job_is_empty({}, {});
  EXPECT_FALSE(end_.has_all());
  end_.give_up_gpus();
  EXPECT_FALSE(end_.has_all()) << "only from the loop, because the wait may call it";
  EXPECT_TRUE(run_until(loop_, [this] { return end_.has_all(); }));
  EXPECT_EQ(changes_, 1);
}

TEST_F(SessionEndTest, DoesNotBeginAWaitThatWasGivenUp) {
  hold_memory();
  end_.give_up_gpus();
  end_.job_is_empty({}, {});
  EXPECT_TRUE(end_.has_all());
  EXPECT_EQ(changes_, 0);
}

}  // namespace
}  // namespace muster::agent::session_end_test
