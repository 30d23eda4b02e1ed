// Diagnoses of hosts as lines of JSON: muster.v1.HostDiagnosis in its proto3 form, with original field names.
#pragma once

#include <string>

#include "model/diagnosis.h"

namespace muster::proto {

// One line, with its end. Text that is not UTF-8 keeps what is. Pure.
std::string diagnosis_line(const model::HostDiagnosis& diagnosis);

}  // namespace muster::proto
