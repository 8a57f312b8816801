// One output of the packet switch: takes a frame at a time from the inputs that want it, the next
// input in turn first.
module switch_output #(
    parameter int INPUTS = 4
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [INPUTS-1:0]      s_valid, // a word that is for this output
    output logic [INPUTS-1:0]      s_ready,
    input  logic [INPUTS*71-1:0]   s_word,  // err, bytes, eof (65), sof, data
    output logic                   m_valid,
    input  logic                   m_ready,
    output logic [70:0]            m_word,
    output logic [$clog2(INPUTS)-1:0] m_src
);
  localparam int BITS = $clog2(INPUTS);
  logic [BITS-1:0] owner, turn, choice;
  logic            open; // a frame of `owner` is on its way
  logic            any;

  always_comb begin
    choice = turn;
    any = 1'b0;
    for (int i = INPUTS - 1; i >= 0; i--) begin
      if (s_valid[BITS'(int'(turn) + i)]) begin
        choice = BITS'(int'(turn) + i);
        any = 1'b1;
      end
    end
    if (open) begin
      choice = owner;
      any = s_valid[owner];
    end
  end
  assign m_valid = any;
  assign m_word = s_word[71*choice +: 71];
  assign m_src = choice;
  always_comb begin
    s_ready = '0;
    s_ready[choice] = m_ready && any;
  end

  // An offered word stays the same until it is taken, so the choice is kept from the offer on.
  always_ff @(posedge clk) begin
    if (rst) begin
      open <= 1'b0;
      turn <= '0;
      owner <= '0;
    end else if (any) begin
      owner <= choice;
      open <= !(m_ready && m_word[65]);
      if (m_ready && m_word[65]) turn <= choice + 1'b1;
    end
  end
endmodule
