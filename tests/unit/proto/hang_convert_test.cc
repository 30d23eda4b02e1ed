#include "proto/hang_convert.h"

#include <string>

#include <gtest/gtest.h>

#include "proto/message_json.h"
#include "tests/unit/model/hang_evidence.h"

namespace muster::proto::hang_convert_test {
namespace {

model::RankEvidence full_evidence() {
  model::RankEvidence evidence =
      model::in_allreduce(17).in("wait", "/home/alice/opt.py", 7).native("poll").awaits("the key x").evidence;
  evidence.rank = 3;
  evidence.host = "n2";
  evidence.moving = true;
  evidence.state_ms = 118'000;
  evidence.cpu_ms = 5;
  evidence.collective->since_ms = 9;
  evidence.collective->beats = 2;
  evidence.awaits_ms = 4;
  evidence.last_line = "epoch 3";
  evidence.silent_ms = 125'000;
  evidence.problem = "no native stack";
  evidence.fully_stopped = true;
  evidence.torch =
      model::TorchCollective{.group = "default_pg", .sequence = 17, .operation = "nccl:all_reduce", .state = "started"};
  evidence.python_source = "py-spy";
  return evidence;
}

TEST(HangConvert, KeepsAllFields) {
  const v1::RankEvidence message = to_proto(full_evidence());
  EXPECT_EQ(message_line(to_proto(evidence_of(message))), message_line(message));
  const std::string text = message_line(message);
  const auto* const fields = v1::RankEvidence::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    EXPECT_NE(text.find("\"" + std::string(fields->field(i)->name()) + "\""), std::string::npos)
        << fields->field(i)->name() << " is not set in " << text;
  }
}

TEST(HangConvert, KeepsReports) {
  model::HangReport report{.silent_ms = 124'000,
                           .generation = 2,
                           .size = 4,
                           .answered = 3,
                           .looked_ms = 3'000,
                           .cause = "rank 3 on n2 does not move",
                           .classes = {{.suspect = true, .ranks = {3}, .example = full_evidence()},
                                       {.suspect = false, .ranks = {0, 1}, .example = {}}},
                           .silent_hosts = {"n7"},
                           .nccl = {{.text = "rank 3 does not answer NCCL", .ranks = {3}}}};
  const v1::HangReport message = to_proto(report);
  EXPECT_EQ(message_line(to_proto(hang_report_of(message))), message_line(message));
  EXPECT_EQ(hang_report_of(message).classes[1].ranks, report.classes[1].ranks);
  ASSERT_EQ(message.nccl_size(), 1);
  EXPECT_EQ(message.nccl(0).text(), "rank 3 does not answer NCCL");
  EXPECT_EQ(hang_report_of(message).nccl[0].ranks, report.nccl[0].ranks);
}

TEST(HangConvert, BoundsWhatProgramsDecide) {
  model::RankEvidence evidence;
  for (int i = 0; i < 100; ++i)
    evidence.python.push_back({.function = "f", .file = std::string(5'000, 'x'), .line = i});
  evidence.last_line = "\xff\xfe";
  const v1::RankEvidence message = to_proto(evidence);
  EXPECT_EQ(message.python_size(), 32);
  EXPECT_LE(message.python(0).file().size(), 1024u);
  EXPECT_NE(message.last_line(), evidence.last_line);
}

TEST(HangConvert, CorrectsWhatAgentsSend) {
  v1::RankEvidence message;
  message.set_cpu_ms(-1);
  message.set_looked_ms(-1);
  message.set_state_ms(-1);
  message.set_wait_channel("0");
  for (int i = 0; i < 100; ++i) message.add_python();
  const model::RankEvidence evidence = evidence_of(message);
  EXPECT_EQ(evidence.cpu_ms, 0);
  EXPECT_EQ(evidence.looked_ms, 0);
  EXPECT_EQ(evidence.state_ms, 0);
  EXPECT_EQ(evidence.wait_channel, "");
  EXPECT_EQ(evidence.python.size(), 32u);
}

}  // namespace
}  // namespace muster::proto::hang_convert_test
