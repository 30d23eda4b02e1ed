// The descriptions of Muster's messages are there when somebody asks for them, by message or by name. This program has
// more than one file of generated code, and in this process either test may be the first to ask.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "proto/muster/v1/agent.pb.h"
#include "proto/muster/v1/host_runs.pb.h"
#include "proto/muster/v1/launcher.pb.h"
#include "proto/register_descriptors.h"

namespace muster::proto::listed_descriptors_test {
namespace {

TEST(ListedDescriptors, AreFoundByNameOnceRegistered) {
  register_descriptors();
  register_descriptors();
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  for (const char* const name : {"muster.v1.Job", "muster.v1.AgentMessage", "muster.v1.HostRuns"}) {
    EXPECT_NE(pool.FindMessageTypeByName(name), nullptr) << name;
  }
  EXPECT_NE(pool.FindServiceByName("muster.v1.Launcher"), nullptr);
}

TEST(ListedDescriptors, AreThereForEachThreadThatAsks) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const google::protobuf::Descriptor& type = i % 2 == 0 ? *v1::HostRuns::descriptor() : *v1::Job::descriptor();
      EXPECT_EQ(type.full_name(), i % 2 == 0 ? "muster.v1.HostRuns" : "muster.v1.Job");
      v1::Job job;
      job.set_id("abcdefgh");
      EXPECT_EQ(job.GetReflection()->GetString(job, job.GetDescriptor()->FindFieldByName("id")), "abcdefgh");
      EXPECT_EQ(v1::JobState_Name(v1::JOB_STATE_RUNNING), "JOB_STATE_RUNNING");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace muster::proto::listed_descriptors_test
