// What a template says of hosts, as the binder takes it, and names for hosts that are only made up. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "job_templates/template.h"
#include "model/node_shape.h"

namespace muster::job_templates {

// CPU numbers are dealt as Linux does it: first threads of all cores, then the second ones. All cores are there, also
// reserved ones (--reserve-cores is hvdrun's). FAILED_PRECONDITION: the template says nothing of hosts.
base::Result<model::NodeShape> node_shape(const Template& job_template);

// "nid00001", "nid00002", …, by the site's pattern; "host1" where the template has none.
std::vector<std::string> made_up_names(const NodeLook& node, int count);

}  // namespace muster::job_templates
