// Tests that JobManager runs the command of a job that has ended, also if an earlier launcherd has not finished it.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/daemon/job_manager_rig.h"

namespace muster::launcherd::job_manager_notify_test {
namespace {

using testing_store::job_id;
using testing_support::request_of;

class JobManagerNotifyTest : public testing_support::JobManagerRig {
 protected:
  // Counts the events of the job as well as its end.
  void run_until_event(const std::string& id, const std::function<bool()>& is_there) {
    manager_->on_change = [&](const base::JobId& changed) {
      if (changed.str() == id) count();
    };
    while (!is_there()) run_until(done_ + 1);
    manager_->on_change = nullptr;
  }
  std::size_t waiting() { return StoreReader::open(path())->to_notify(0, 10)->size(); }
};

TEST_F(JobManagerNotifyTest, TheCommandRunsOnceTheJobHasEnded) {
  drain_all();
  v1::SubmitRequest request = request_of(1);
  const std::string mark = directory_ / "mark";
  request.set_notify("mkdir " + mark);
  const std::string id = submit(request)->job_id();
  manager_->kill(job_id(id), false, [](const base::Status&) {});
  run_until_event(id, [&] { return !manager_->is_open(job_id(id)) && waiting() == 0; });
  EXPECT_TRUE(std::filesystem::exists(mark));
}

TEST_F(JobManagerNotifyTest, TheNextLauncherdRunsWhatIsLeftAndReportsAFailure) {
  drain_all();
  v1::SubmitRequest request = request_of(1);
  request.set_notify("exit 4");
  const std::string id = submit(request)->job_id();
  end();
  {
    launcherd::BatchWriter writer = testing_store::open_writer(path());
    ASSERT_TRUE(testing_store::commit(writer, {testing_store::step(id, model::JobState::kKilled, "killed", 143)}).ok());
  }
  EXPECT_EQ(waiting(), 1u);
  begin();
  run_until_event(id, [&] { return waiting() == 0; });
  EXPECT_NE(lines_.back().find("--notify: the command ended with exit code 4"), std::string::npos);
  const auto events = StoreReader::open(path())->events(job_id(id), stored(id).last_sequence - 1, 10);
  ASSERT_EQ(events->size(), 1u);
  EXPECT_NE(events->front().message.find("the command ended with exit code 4"), std::string::npos);
}

}  // namespace
}  // namespace muster::launcherd::job_manager_notify_test
