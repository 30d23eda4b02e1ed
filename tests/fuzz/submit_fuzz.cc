// A SubmitRequest from anybody: it makes a job that comes back from the wire unchanged, or one sentence says why not.
// What is stored of it holds no value of a variable.
#include <cstdint>

#include "proto/job_spec_convert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  v1::SubmitRequest request;
  if (size > (4u << 20) || !request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto submission = proto::submission_of(request);
  if (!submission.ok()) {
    MUSTER_CHECK(submission.status().code() == base::Code::kInvalidArgument);
    MUSTER_CHECK(submission.status().message().find('\n') == std::string::npos);
    return 0;
  }
  MUSTER_CHECK(!submission->job.command.empty());
  const v1::JobSpec once = proto::to_proto(submission->job);
  const auto again = proto::job_spec_of(once);
  MUSTER_CHECK(again.ok());
  MUSTER_CHECK(proto::to_proto(*again).SerializeAsString() == once.SerializeAsString());
  const v1::SubmitRequest stored = proto::without_values(request);
  for (const v1::EnvVar& variable : stored.environment()) MUSTER_CHECK(variable.value().empty());
  return 0;
}
