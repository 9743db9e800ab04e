#pragma once

#include "bfloat16.h"
