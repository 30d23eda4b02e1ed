// Writes diagnoses of hosts as lines of JSON: muster.v1.HostDiagnosis in proto3 JSON, with original field names.
#pragma once

#include <string>

#include "model/diagnosis.h"

namespace muster::proto {

// Returns one line, with its newline. Bytes that are not UTF-8 become U+FFFD. Pure.
std::string diagnosis_line(const model::HostDiagnosis& diagnosis);

}  // namespace muster::proto
