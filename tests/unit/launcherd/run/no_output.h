// A sink for jobs whose output no test reads.
#pragma once

#include <cstdint>
#include <string_view>

#include "launcherd/output/sinks.h"

namespace muster::testing_support {

class NoOutput final : public launcherd::OutputSink {
 public:
  base::Status write(int, proto::OutputStream, std::string_view, std::uint8_t) override { return base::ok_status(); }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
};

}  // namespace muster::testing_support
